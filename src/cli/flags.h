// What a command line and the environment say, before a command reads it. The environment is read
// here and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "cluster/start.h"

namespace lockstep {

// The arguments after the program's name. `-np 4` becomes `-n 4`, and a negative number is joined
// to its flag, so that it is judged as a value and not taken for another flag.
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// The same path, which no command line takes for a flag: ./-x for -x.
std::string no_flag(const std::string& path);

// Flags that stand for variables of the environment, as typed; empty: not given.
struct HostFlags {
  std::string listen, join, key_file, iface;
};

// A flag wins over its variable (see cluster/start.h). UsageError: --join is not ADDR:PORT.
Environment environment_with(const HostFlags&);

// Where data sets are kept: $XDG_CACHE_HOME/lockstep, or ~/.cache/lockstep.
std::string cache_folder();

}  // namespace lockstep
