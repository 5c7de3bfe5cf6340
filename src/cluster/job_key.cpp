#include "cluster/job_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
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

// The key that `text` spells, or an empty string.
std::string key_from_text(std::string text) {
  if (text.size() == kKeyBytes) return text;
  if (text.size() == 2 * kKeyBytes + 1 && text.back() == '\n') text.pop_back();
  if (text.size() != 2 * kKeyBytes) return {};
  std::string key;
  for (const char* at = text.data(); at != text.data() + text.size(); at += 2) {
    unsigned char byte = 0;
    if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2) return {};
    key.push_back(static_cast<char>(byte));
  }
  return key;
}

void append_number(std::string& text, int number) {
  for (int shift = 0; shift < 32; shift += 8)
    text.push_back(static_cast<char>(static_cast<std::uint32_t>(number) >> shift));
}

std::string hmac(const std::string& key, const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &length))
    throw InternalError("OpenSSL could not compute HMAC-SHA256");
  return {reinterpret_cast<const char*>(digest), length};
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

std::string random_nonce() { return random_bytes(kNonceBytes); }

std::string proof_of(const std::string& key, Prover prover, const Transcript& transcript) {
  // Every part has a fixed length, so no two transcripts spell the same text.
  if (key.size() != kKeyBytes || transcript.worker_nonce.size() != kNonceBytes ||
      transcript.coordinator_nonce.size() != kNonceBytes)
    throw InternalError("a handshake needs a key and two nonces of 32 bytes each");
  std::string text = "lockstep control ";
  text.push_back(static_cast<char>(prover));
  append_number(text, transcript.version);
  append_number(text, transcript.rank);
  append_number(text, transcript.size);
  text += transcript.worker_nonce;
  text += transcript.coordinator_nonce;
  return hmac(key, text);
}

std::string seal_of(const std::string& key, const std::string& text) {
  return hmac(key, "lockstep seal " + text);
}

bool same_proof(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep
