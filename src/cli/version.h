// lockstep --version
#pragma once

namespace lockstep {

// The version, the commit, and the libraries that this program was built with, on stdout.
void print_version(bool json);

}  // namespace lockstep
