#include "core/whole_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

OpenedFile opened(const std::string& path, int flags) {
  // Without O_NONBLOCK opening a FIFO waits for its other end. To an ordinary file it means
  // nothing.
  const int file = open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0 && errno == ELOOP && (flags & O_NOFOLLOW)) return {-1, "it is a link", 0};
  if (file < 0) return {-1, std::strerror(errno), 0};
  struct stat about {};
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode))
    return {file, "", static_cast<std::uint64_t>(about.st_size)};
  close(file);
  return {-1, S_ISDIR(about.st_mode) ? "it is a folder" : "it is not an ordinary file", 0};
}

class Descriptor {
 public:
  // A file to be written.
  Descriptor(const std::string& path, int flags) : path_(path) {
    OpenedFile file = open_to_write(path, flags);
    if (file.descriptor < 0)
      throw InternalError(fmt::format("can't open {}: {}", path, file.why_not));
    fd_ = file.descriptor;
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;

  void write(ConstBytes bytes) const { write_all(fd_, bytes, "can't write " + path_); }
  void allocate(std::uint64_t bytes) const {
    const int error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    errno = error;
    if (error != 0) throw_errno(fmt::format("can't keep {} bytes free for {}", bytes, path_));
  }
  void flush() const {
    if (fsync(fd_) != 0 && errno != EINVAL) throw_errno("can't flush " + path_);
  }
  off_t end() const { return lseek(fd_, 0, SEEK_END); }
  void cut(off_t bytes) const { (void)!ftruncate(fd_, bytes); }

 private:
  const std::string path_;
  int fd_ = -1;
};

// A new file, whatever had that name.
Descriptor made(const std::string& path) {
  std::remove(path.c_str());
  return {path, O_WRONLY | O_CREAT | O_EXCL};
}

// Passes on the whole file, piece by piece.
void read_pieces(const std::string& path, const std::function<void(ConstBytes)>& take,
                 const std::string& what = "") {
  const std::string name = what.empty() ? path : what + " " + path;
  const OpenedFile file = open_to_read(path);
  if (file.descriptor < 0) throw UsageError(fmt::format("can't open {}: {}", name, file.why_not));
  std::vector<char> piece(1 << 16);
  ssize_t got = 0;
  do {
    got = read(file.descriptor, piece.data(), piece.size());
    if (got > 0) take({piece.data(), static_cast<std::size_t>(got)});
  } while (got > 0 || (got < 0 && errno == EINTR));
  const int error = errno;
  close(file.descriptor);
  if (got < 0) throw UsageError(fmt::format("can't read {}: {}", name, std::strerror(error)));
}

void check_answer(int answer) {
  if (answer != 1) throw InternalError("OpenSSL refuses to compute a SHA-256");
}
EVP_MD_CTX* openssl(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

OpenedFile open_to_read(const std::string& path) { return opened(path, O_RDONLY); }
OpenedFile open_to_write(const std::string& path, int flags) {
  return opened(path, flags | O_NOFOLLOW);
}

void write_all(int descriptor, ConstBytes bytes, const std::string& what) {
  for (std::size_t done = 0; done < bytes.size;) {
    const ssize_t n = write(descriptor, bytes.data + done, bytes.size - done);
    if (n < 0 && errno != EINTR) throw_errno(what);
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

void write_whole(const std::string& path, ConstBytes bytes) {
  const std::string temporary = path + ".partial";
  try {
    const Descriptor file = made(temporary);
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

void flush_to_disk(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  if (!flushed) throw_errno("can't flush " + path);
}

void move_into_place(const std::string& from, const std::string& to) {
  const std::string folder = fs::absolute(to).parent_path();
  const auto rename = [](const std::string& old_name, const std::string& new_name) {
    if (std::rename(old_name.c_str(), new_name.c_str()) != 0)
      throw_errno("can't rename " + old_name + " to " + new_name);
  };
  if (!fs::is_directory(fs::symlink_status(to))) {
    rename(from, to);
    return flush_to_disk(folder);
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    flush_to_disk(folder);
    fs::remove_all(from);  // which is the old one by now
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) throw_errno("can't exchange " + from + " and " + to);
  const std::string old = to + ".old";
  fs::remove_all(old);
  rename(to, old);
  rename(from, to);
  flush_to_disk(folder);
  fs::remove_all(old);
}

void reserve_file(const std::string& path, std::uint64_t bytes) {
  try {
    made(path).allocate(bytes);
  } catch (const std::exception&) {
    std::remove(path.c_str());
    throw;
  }
}

void append_line(const std::string& path, const std::string& line) {
  append_text(path, line + "\n");
}

void append_text(const std::string& path, const std::string& text) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
  const off_t before = file.end();
  try {
    file.write({text.data(), text.size()});
  } catch (const std::exception&) {
    file.cut(before);
    throw;
  }
}

std::string read_whole(const std::string& path, const std::string& what) {
  std::string text;
  const auto add = [&](ConstBytes piece) {
    text.append(reinterpret_cast<const char*>(piece.data), piece.size);
  };
  read_pieces(path, add, what);
  return text;
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
  FileSum all;
  Sha256 sum;
  read_pieces(path, [&](ConstBytes piece) {
    sum.add(piece);
    all.bytes += piece.size;
  });
  all.sha256 = sum.text();
  return all;
}

}  // namespace lockstep
