#include "core/ordinary_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "folder.h"

namespace lockstep {
namespace {

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
