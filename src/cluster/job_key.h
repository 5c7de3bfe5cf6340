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

// How both ends of a control connection prove that they know the job key, without sending it: each
// picks a nonce, and each returns an HMAC-SHA256 of both. The worker proves first, so a worker with
// a wrong key learns that it was refused. Pure functions; what travels where is in protocol.thrift.

inline constexpr std::size_t kNonceBytes = 32;
std::string random_nonce();

// The end that proves that it knows the key.
enum class Prover : char { worker = 'w', coordinator = 'c' };

// What both ends agree they are talking about. Everything here is bound into the proofs.
struct Transcript {
  int version = 0;
  int rank = 0;
  int size = 0;
  std::string worker_nonce;       // kNonceBytes
  std::string coordinator_nonce;  // kNonceBytes
};

// 32 bytes that only who knows the key can make, and only for this end in this transcript.
std::string proof_of(const std::string& key, Prover, const Transcript&);

// 32 bytes that only who knows the key can make of this text: no proof of anything above.
std::string seal_of(const std::string& key, const std::string& text);

// Compares in a time that does not depend on where they differ.
bool same_proof(const std::string& a, const std::string& b);

}  // namespace lockstep
