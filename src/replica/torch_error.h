// LibTorch's errors in words that people can read.
#pragma once

#include <exception>
#include <string>

namespace lockstep {

// One line. LibTorch's own text goes on with its stack, and that of a script that failed begins
// with one: what is wrong stands between.
std::string sentence_of(const std::exception&);

}  // namespace lockstep
