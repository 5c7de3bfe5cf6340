#include "core/cgroups.h"

#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

// A line of /proc/self/mountinfo, as far as it matters.
struct Mount {
  std::string root, folder, type, options;
};

std::vector<Mount> cgroup_mounts() {
  std::vector<Mount> all;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, source;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.folder;
    while (words >> skipped && skipped != "-") {
    }
    words >> mount.type >> source >> mount.options;
    if (mount.type.starts_with("cgroup")) all.push_back(mount);
  }
  return all;
}

bool lists(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

bool holds(const Mount& mount, const CgroupPlace& place) {
  if (!place.path.starts_with(mount.root)) return false;
  if (place.controllers.empty()) return mount.type == "cgroup2";
  const std::string first = place.controllers.substr(0, place.controllers.find(','));
  return mount.type == "cgroup" && lists(mount.options, first);
}

}  // namespace

bool CgroupPlace::has(const std::string& controller) const {
  return lists(controllers, controller);
}

std::vector<CgroupPlace> cgroup_places() {
  const std::vector<Mount> mounts = cgroup_mounts();
  std::vector<CgroupPlace> places;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // 4:memory:/path
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    CgroupPlace place{line.substr(first + 1, second - first - 1), line.substr(second + 1), {}};
    for (const Mount& mount : mounts) {
      if (!holds(mount, place)) continue;
      place.folder = mount.folder + "/" + place.path.substr(mount.root.size());
      places.push_back(place);
      break;
    }
  }
  return places;
}

}  // namespace lockstep
