#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cluster/netns.h"
#include "core/cgroups.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HostCgroup, AProcessIsAdmittedAndNothingIsLeft) {
  std::vector<std::string> folders;
  {
    const HostCgroup group(7);
    folders = group.folders();
    if (folders.empty()) GTEST_SKIP() << "no control groups may be made here";
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    group.admit(child);
    std::ifstream places("/proc/" + std::to_string(child) + "/cgroup");
    const std::string text{std::istreambuf_iterator(places), {}};
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_THAT(text, HasSubstr("lockstep-" + std::to_string(getpid()) + "-host7"));
  }
  for (const std::string& folder : folders) EXPECT_FALSE(fs::exists(folder)) << folder;
}

TEST(HostCgroup, WhatAKilledLauncherLeftIsRemoved) {
  std::string folder;
  {
    const HostCgroup group(0);
    if (group.folders().empty()) GTEST_SKIP() << "no control groups may be made here";
    folder = fs::path(group.folders()[0]).parent_path();
  }
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string left = folder + "/lockstep-" + std::to_string(gone) + "-host0";
  const std::string others = folder + "/lockstep-" + std::to_string(getppid()) + "-host0";
  ASSERT_EQ(mkdir(left.c_str(), 0755), 0);
  ASSERT_EQ(mkdir(others.c_str(), 0755), 0);
  const HostCgroup next(0);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(others));  // its launcher lives
  rmdir(others.c_str());
}

// Whoever put us below the top of a hierarchy keeps it, unless it was given to us to divide.
TEST(HostCgroup, GroupsThatOthersKeepAreLeftAlone) {
  const HostCgroup group(0);
  for (const CgroupPlace& place : cgroup_places()) {
    char mark = 0;
    if (place.path == "/" || getxattr(place.folder.c_str(), "trusted.delegate", &mark, 1) > 0 ||
        getxattr(place.folder.c_str(), "user.delegate", &mark, 1) > 0)
      continue;
    EXPECT_THAT(group.folders(), Each(Not(StartsWith(place.folder))));
  }
}

}  // namespace
}  // namespace lockstep
