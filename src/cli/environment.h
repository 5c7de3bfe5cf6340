// The environment, read here and nowhere else, with the flags that stand for some of its variables.
#pragma once

#include "cluster/start.h"

namespace lockstep {

// As typed; empty: not given.
struct HostFlags {
  std::string listen, join, key_file, iface;
};

// A flag wins over its variable (see cluster/start.h). UsageError: --join is not ADDR:PORT.
Environment environment_with(const HostFlags&);

// Where data sets are kept: $XDG_CACHE_HOME/lockstep, or ~/.cache/lockstep.
std::string cache_folder();

}  // namespace lockstep
