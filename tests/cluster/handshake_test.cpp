#include <gtest/gtest.h>

#include "cluster/job_key.h"
#include "core/error.h"

namespace lockstep {
namespace {

std::string counting_key() {
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(i));
  return key;
}

Transcript example() { return {1, 3, 8, std::string(32, '\x11'), std::string(32, '\x22')}; }

std::string hex(const std::string& bytes) {
  std::string text;
  for (unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

// Computed with Python's hmac from the layout: text, role, three little-endian numbers, two nonces.
TEST(Handshake, MatchesIndependentVectors) {
  EXPECT_EQ(hex(proof_of(counting_key(), Prover::worker, example())),
            "91a6d2f64b2db5188639cd44c9d94ec334750f30d33ac29f737de36cfc0db0d5");
  EXPECT_EQ(hex(proof_of(counting_key(), Prover::coordinator, example())),
            "5eeba15de1092a0482a96eb260c1b1fc9d8a5d7cca41b0be7e299a1e012629ed");
}

TEST(Handshake, BindsEveryPart) {
  const std::string key = counting_key();
  const std::string proof = proof_of(key, Prover::worker, example());
  EXPECT_NE(proof, proof_of(key, Prover::coordinator, example()));
  EXPECT_NE(proof, proof_of(std::string(32, 'k'), Prover::worker, example()));
  const auto changed = [&](auto change) {
    Transcript other = example();
    change(other);
    return proof_of(key, Prover::worker, other) != proof;
  };
  EXPECT_TRUE(changed([](Transcript& t) { t.version = 2; }));
  EXPECT_TRUE(changed([](Transcript& t) { t.rank = 4; }));
  EXPECT_TRUE(changed([](Transcript& t) { t.size = 9; }));
  EXPECT_TRUE(changed([](Transcript& t) { t.worker_nonce[31] ^= 1; }));
  EXPECT_TRUE(changed([](Transcript& t) { t.coordinator_nonce[0] ^= 1; }));
  EXPECT_TRUE(changed([](Transcript& t) { std::swap(t.worker_nonce, t.coordinator_nonce); }));
}

TEST(Handshake, ComparesWholeProofs) {
  EXPECT_TRUE(same_proof("abc", "abc"));
  EXPECT_FALSE(same_proof("abc", "abd"));
  EXPECT_FALSE(same_proof("abc", "ab"));
  EXPECT_FALSE(same_proof("", "a"));
}

TEST(Handshake, RefusesShortNoncesAndKeys) {
  Transcript short_nonce = example();
  short_nonce.worker_nonce.pop_back();
  EXPECT_THROW(proof_of(counting_key(), Prover::worker, short_nonce), InternalError);
  EXPECT_THROW(proof_of("short", Prover::worker, example()), InternalError);
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace lockstep
