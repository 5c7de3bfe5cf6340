#include "train/files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace lockstep {
namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), fd_(open(path.c_str(), flags, 0666)) {
    if (fd_ < 0) throw_errno("can't open " + path);
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;

  void write(ConstBytes bytes) const {
    for (std::size_t done = 0; done < bytes.size;) {
      const ssize_t n = ::write(fd_, bytes.data + done, bytes.size - done);
      if (n < 0 && errno != EINTR) throw_errno("can't write " + path_);
      if (n > 0) done += static_cast<std::size_t>(n);
    }
  }
  void flush() const {
    if (fsync(fd_) != 0 && errno != EINVAL) throw_errno("can't flush " + path_);
  }

 private:
  const std::string path_;
  const int fd_;
};

}  // namespace

void write_whole(const std::string& path, ConstBytes bytes) {
  const std::string temporary = path + ".partial";
  try {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    file.write(bytes);
    file.flush();
  } catch (const std::exception&) {
    std::remove(temporary.c_str());  // a full disk has better uses for it
    throw;
  }
  move_into_place(temporary, path);
}

void write_whole(const std::string& path, const std::string& text) {
  write_whole(path, ConstBytes(text.data(), text.size()));
}

void move_into_place(const std::string& from, const std::string& to) {
  if (std::filesystem::is_directory(to)) std::filesystem::remove_all(to);
  if (std::rename(from.c_str(), to.c_str()) != 0) throw_errno("can't rename " + from + " to " + to);
  const auto folder = std::filesystem::absolute(to).parent_path();
  Descriptor(folder.string(), O_RDONLY | O_DIRECTORY | O_CLOEXEC).flush();
}

void append_line(const std::string& path, const std::string& line) {
  append_text(path, line + "\n");
}

void append_text(const std::string& path, const std::string& text) {
  Descriptor(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC).write({text.data(), text.size()});
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw UsageError(fmt::format("can't open {}", path));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string checksum(ConstBytes bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data, bytes.size, digest, &length, EVP_sha256(), nullptr) != 1)
    throw InternalError("OpenSSL refuses to compute a SHA-256");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace lockstep
