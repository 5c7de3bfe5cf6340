// What a run is made from, known by content: files may change and keep their names. Resumed runs
// and studies compare it.
#pragma once

#include <string>

#include "data/dataset.h"

namespace lockstep {

// Hexadecimal SHA-256 of both sets: of shapes and labels, and of all samples where that is quick,
// else of some from all over the set.
std::string content_of(const Data&);
// Hexadecimal SHA-256 of the file that --model names. Empty: it names a network of ours.
std::string content_of_model(const std::string& model);

}  // namespace lockstep
