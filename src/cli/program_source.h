// Which source this program was built from.
#pragma once

#include <string>

namespace lockstep {

// The commit; with uncommitted changes, "+" and the start of their hash after it. "unknown" where
// it was built outside a repository.
std::string program_commit();
// The same of src/ alone: other commits leave it as it is.
std::string program_source();

}  // namespace lockstep
