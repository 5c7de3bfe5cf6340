// Files that are there whole or not at all.
#include "core/whole_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// No file of this process can grow beyond it while this lives, as on a full disk.
class Room {
 public:
  explicit Room(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~Room() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(Files, WhatDoesNotFitLeavesTheOldFileAndNoPart) {
  const testing::Folder folder;
  const std::string path = folder / "file";
  write_whole(path, std::string("old"));
  {
    const Room room(1000);
    EXPECT_THROW(write_whole(path, std::string(5000, 'x')), std::exception);
  }
  EXPECT_EQ(read_whole(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace lockstep
