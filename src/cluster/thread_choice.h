// How many threads a worker gets.
#pragma once

#include <string>

#include "cluster/child.h"

namespace lockstep {

// `asked` each, or if that is 0 what the environment says, else cores / workers, at least 1. Adds
// the variables for it and says what was chosen.
std::string choose_threads(int asked, int workers, Variables&);

}  // namespace lockstep
