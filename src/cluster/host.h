// Which machine this process is on, as far as sharing memory and finding each other goes.
#pragma once

#include <string>

namespace lockstep {

// Equal for two processes that can open each other's memory files and meet on one network: boot,
// process namespace, network namespace and user. So each host of a netns cluster counts as a host
// of its own.
std::string host_identity();
// For people.
std::string host_name();

}  // namespace lockstep
