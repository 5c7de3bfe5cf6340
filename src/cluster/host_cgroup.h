// A control group for each host in a network namespace, so that a host's use can be told from the
// others', as `docker stats` does. Made below our own place in a hierarchy, and only where that is
// the top of what we see or was given to us to divide ("delegated"): elsewhere somebody else keeps
// these groups, and our processes stay where they were put. Controllers that can't be had so are
// done without, silently: nothing but a few figures depends on them.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

class HostCgroup {
 public:
  // What our groups' names start with; our process number and the host's follow.
  static constexpr const char* kPrefix = "lockstep-";

  // Also removes what launchers that were killed left behind.
  explicit HostCgroup(int host);
  // REQUIRES: the processes in it have ended.
  ~HostCgroup();
  HostCgroup(const HostCgroup&) = delete;

  // Moves a process into it.
  void admit(int pid) const;
  const std::vector<std::string>& folders() const { return folders_; }  // one a hierarchy

 private:
  std::vector<std::string> folders_;
};

}  // namespace lockstep
