// How many files, sockets and pipes this process may have open.
#pragma once

#include <string>

namespace lockstep {

// How many more it may open now.
int free_descriptors();

// Sees to it that `count` more can be opened, and raises the soft limit for that where the hard one
// allows it. UsageError: `who` needs more than there can be.
void reserve_descriptors(const std::string& who, int count);

}  // namespace lockstep
