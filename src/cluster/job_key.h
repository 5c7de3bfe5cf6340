// The job key: 32 random bytes that every process of a job knows and nobody else. It reaches a
// process in a file that only its owner may read, or through an inherited descriptor; never in argv
// or in the environment, which other users can see.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

inline constexpr std::size_t kKeyBytes = 32;

// `bytes` from the system's generator.
std::string random_bytes(std::size_t bytes);
std::string random_key();

// The file holds 32 bytes or 64 hexadecimal digits (a newline may follow) and gives no right to
// group or others; UsageError if not.
std::string key_from_file(const std::string& path);

// A sealed memory file with the key, close-on-exec. The caller closes it.
int key_descriptor(const std::string& key);
// Reads the key (from the start where the descriptor can seek: siblings share its position) and
// closes it.
std::string key_from_descriptor(int fd);

}  // namespace lockstep
