// Files that are there whole or not at all.
#include "core/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

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

std::string why_not(const OpenedFile& file) {
  if (file.descriptor >= 0) close(file.descriptor);
  return file.why_not;
}

TEST(OrdinaryFile, IsReadAlsoThroughALinkAndWrittenThroughNone) {
  const testing::Folder folder;
  std::ofstream(folder / "file") << "four";
  std::filesystem::create_symlink(folder / "file", folder / "link");
  const OpenedFile read = open_to_read(folder / "link");
  EXPECT_EQ(read.bytes, 4u);
  EXPECT_EQ(why_not(read), "");
  EXPECT_EQ(why_not(open_to_write(folder / "file", O_WRONLY)), "");
  EXPECT_EQ(why_not(open_to_write(folder / "link", O_WRONLY | O_TRUNC)), "it is a link");
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), 4u);
}

TEST(OrdinaryFile, IsNoFifoFolderOrDevice) {
  const testing::Folder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(why_not(open_to_read(fifo)), "it is not an ordinary file");
  EXPECT_NE(why_not(open_to_write(fifo, O_WRONLY | O_APPEND)), "");
  EXPECT_EQ(why_not(open_to_write(fifo, O_RDWR)), "it is not an ordinary file");
  EXPECT_EQ(why_not(open_to_read(folder.text())), "it is a folder");
  EXPECT_EQ(why_not(open_to_read("/dev/zero")), "it is not an ordinary file");
  EXPECT_EQ(why_not(open_to_read(folder / "none")), "No such file or directory");
}

}  // namespace
}  // namespace lockstep
