#include "cluster/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>

#include "cluster/job_key.h"
#include "core/error.h"

namespace lockstep {

namespace {

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
