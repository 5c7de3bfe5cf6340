#include "cluster/job_key.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class KeyFile {
 public:
  KeyFile(const std::string& text, mode_t mode) {
    path_ = testing::TempDir() + "lockstep-key-XXXXXX";
    close(mkstemp(path_.data()));
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  ~KeyFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(JobKey, RandomKeysDiffer) {
  EXPECT_EQ(random_key().size(), kKeyBytes);
  EXPECT_NE(random_key(), random_key());
}

TEST(JobKey, IsReadFromAFileAsBytesOrDigits) {
  const std::string raw = "0123456789abcdefghijklmnopqrst\n!";
  EXPECT_EQ(key_from_file(KeyFile(raw, 0600).path()), raw);
  std::string digits;
  for (int i = 0; i < 32; ++i) digits += "fF";
  EXPECT_EQ(key_from_file(KeyFile(digits, 0400).path()), std::string(32, '\xff'));
  EXPECT_EQ(key_from_file(KeyFile(digits + "\n", 0600).path()), std::string(32, '\xff'));
}

TEST(JobKey, RefusesAFileThatOthersMayRead) {
  for (mode_t mode : {0640, 0604, 0644, 0660, 0700}) {
    const KeyFile file(std::string(32, 'k'), mode);
    EXPECT_THAT([&] { key_from_file(file.path()); },
                ThrowsMessage<UsageError>(HasSubstr("chmod 0600")));
  }
}

TEST(JobKey, RefusesAFileOfAnotherLength) {
  for (const std::string& text :
       {std::string(), std::string(31, 'k'), std::string(33, 'k'), std::string(64, 'g'),
        std::string(66, 'a'), std::string(5000, 'a')}) {
    const KeyFile file(text, 0600);
    EXPECT_THAT([&] { key_from_file(file.path()); },
                ThrowsMessage<UsageError>(HasSubstr("32 bytes or 64 hexadecimal digits")));
  }
  EXPECT_THAT([] { key_from_file("/nowhere/key"); },
              ThrowsMessage<UsageError>(HasSubstr("No such file")));
  EXPECT_THAT([] { key_from_file("/tmp"); },
              ThrowsMessage<UsageError>(HasSubstr("not a regular file")));
}

TEST(JobKey, PassesThroughADescriptorThatSiblingsShare) {
  const std::string key = random_key();
  const int fd = key_descriptor(key);
  const int sibling = dup(fd);  // shares the file position
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  EXPECT_EQ(write(fd, "x", 1), -1) << "the memory file must be sealed";
  EXPECT_EQ(key_from_descriptor(fd), key);
  EXPECT_EQ(key_from_descriptor(sibling), key);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "the descriptor must be closed after reading";
}

TEST(JobKey, PassesThroughAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string key = random_key();
  ASSERT_EQ(write(ends[1], key.data(), key.size()), ssize_t(key.size()));
  close(ends[1]);
  EXPECT_EQ(key_from_descriptor(ends[0]), key);
  EXPECT_THROW(key_from_descriptor(ends[0]), UsageError);
}

}  // namespace
}  // namespace lockstep
