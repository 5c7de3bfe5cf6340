// Where this process stands in the kernel's control groups: version 1 (a hierarchy for each
// controller or few) and version 2 (one for all), as mounted here.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct CgroupPlace {
  std::string controllers;  // "cpu,cpuacct"; empty: version 2
  std::string path;         // within the hierarchy, as far as this process sees it: "/"
  std::string folder;       // its files

  bool has(const std::string& controller) const;
};
// Those that are mounted; none where there are no control groups.
std::vector<CgroupPlace> cgroup_places();

}  // namespace lockstep
