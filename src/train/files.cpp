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
#include <vector>

#include "core/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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
  void allocate(std::uint64_t bytes) const {
    const int error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    errno = error;
    if (error != 0) throw_errno(fmt::format("can't keep {} bytes free for {}", bytes, path_));
  }
  void flush() const {
    if (fsync(fd_) != 0 && errno != EINVAL) throw_errno("can't flush " + path_);
  }

 private:
  const std::string path_;
  const int fd_;
};

void flush_folder(const fs::path& folder) {
  Descriptor(folder.string(), O_RDONLY | O_DIRECTORY | O_CLOEXEC).flush();
}

void check_answer(int answer) {
  if (answer != 1) throw InternalError("OpenSSL refuses to compute a SHA-256");
}
EVP_MD_CTX* openssl(void* context) { return static_cast<EVP_MD_CTX*>(context); }

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
  const fs::path folder = fs::absolute(to).parent_path();
  const auto rename = [](const std::string& old_name, const std::string& new_name) {
    if (std::rename(old_name.c_str(), new_name.c_str()) != 0)
      throw_errno("can't rename " + old_name + " to " + new_name);
  };
  if (!fs::is_directory(fs::symlink_status(to))) {
    rename(from, to);
    return flush_folder(folder);
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    flush_folder(folder);
    fs::remove_all(from);  // which is the old one by now
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) throw_errno("can't exchange " + from + " and " + to);
  const std::string old = to + ".old";
  fs::remove_all(old);
  rename(to, old);
  rename(from, to);
  flush_folder(folder);
  fs::remove_all(old);
}

void reserve_file(const std::string& path, std::uint64_t bytes) {
  try {
    Descriptor(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC).allocate(bytes);
  } catch (const std::exception&) {
    std::remove(path.c_str());
    throw;
  }
}

void append_line(const std::string& path, const std::string& line) {
  append_text(path, line + "\n");
}

void append_text(const std::string& path, const std::string& text) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  const auto before = fs::file_size(path);
  try {
    file.write({text.data(), text.size()});
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::resize_file(path, before, ignored);
    throw;
  }
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path)) throw UsageError(fmt::format("can't open {}", path));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check_answer(EVP_DigestInit_ex(openssl(context_), EVP_sha256(), nullptr));
}

Sha256::~Sha256() { EVP_MD_CTX_free(openssl(context_)); }

void Sha256::add(ConstBytes bytes) {
  check_answer(EVP_DigestUpdate(openssl(context_), bytes.data, bytes.size));
}

std::string Sha256::text() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  check_answer(EVP_DigestFinal_ex(openssl(context_), digest, &length));
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string checksum(ConstBytes bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.text();
}

FileSum checksum_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path)) throw UsageError(fmt::format("can't open {}", path));
  FileSum all;
  Sha256 sum;
  std::vector<char> part(1 << 20);
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto got = static_cast<std::size_t>(file.gcount());
    sum.add({part.data(), got});
    all.bytes += got;
  }
  if (file.bad()) throw UsageError(fmt::format("can't read {}", path));
  all.sha256 = sum.text();
  return all;
}

}  // namespace lockstep
