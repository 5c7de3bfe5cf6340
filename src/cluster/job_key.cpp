#include "cluster/job_key.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostBytes = 2 * kKeyBytes + 2;  // enough to see that a file is too long

// What can be read up to kMostBytes; empty on an error.
std::string read_some(int fd) {
  std::string text(kMostBytes, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    ssize_t n = pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (n < 0 && errno == ESPIPE) n = read(fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {};
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  text.resize(have);
  return text;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The key that `text` spells, or an empty string.
std::string key_from_text(std::string text) {
  if (text.size() == kKeyBytes) return text;
  if (text.size() == 2 * kKeyBytes + 1 && text.back() == '\n') text.pop_back();
  if (text.size() != 2 * kKeyBytes) return {};
  std::string key;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return {};
    key.push_back(static_cast<char>(high << 4 | low));
  }
  return key;
}

}  // namespace

std::string random_bytes(std::size_t bytes) {
  std::string text(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(text.data()), static_cast<int>(bytes)) != 1)
    throw InternalError("the system's random generator gives nothing, so no job key can be made");
  return text;
}

std::string random_key() { return random_bytes(kKeyBytes); }

std::string key_from_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw UsageError(fmt::format("cannot read key file {}: {}", path, std::strerror(errno)));
  struct stat info {};
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const std::string text = regular ? read_some(fd) : std::string();
  close(fd);
  if (!regular) throw UsageError(fmt::format("key file {} is not a regular file", path));
  if (info.st_mode & 0177)
    throw UsageError(
        fmt::format("key file {} has mode {:04o}, so others may see the key: chmod 0600 it", path,
                    info.st_mode & 07777));
  const std::string key = key_from_text(text);
  if (key.empty())
    throw UsageError(fmt::format(
        "key file {} must hold exactly 32 bytes or 64 hexadecimal digits; it holds {} bytes", path,
        info.st_size));
  return key;
}

int key_descriptor(const std::string& key) {
  const int fd = memfd_create("lockstep-job-key", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw_errno("memfd_create for the job key");
  if (write(fd, key.data(), key.size()) != static_cast<ssize_t>(key.size()) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    close(fd);
    throw_errno("writing the job key");
  }
  return fd;
}

std::string key_from_descriptor(int fd) {
  const std::string key = key_from_text(read_some(fd));
  close(fd);
  if (key.empty())
    throw UsageError(
        fmt::format("descriptor {} does not hold a job key: it must give exactly 32 bytes or 64 "
                    "hexadecimal digits",
                    fd));
  return key;
}

}  // namespace lockstep
