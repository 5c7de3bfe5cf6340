// What a strategy counts and measures of itself on one rank, for the records.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/bucket_span.h"

namespace lockstep {

// Who contributed what, with which weight, and how old it was when it was used: counted by the rank
// that holds the numbers it went into.
struct Contributions {
  std::vector<std::uint64_t> staleness;  // [s]: how many that were s updates old
  std::vector<double> weight;            // by worker: its weights in all mixes, added up
  std::uint64_t count = 0;

  void add(int worker, double its_weight, std::uint64_t updates_old) {
    if (updates_old >= staleness.size()) staleness.resize(updates_old + 1);
    if (static_cast<std::size_t>(worker) >= weight.size()) weight.resize(worker + 1);
    ++staleness[updates_old];
    weight[worker] += its_weight;
    ++count;
  }
  Contributions& operator+=(const Contributions& other) {
    staleness.resize(std::max(staleness.size(), other.staleness.size()));
    weight.resize(std::max(weight.size(), other.weight.size()));
    for (std::size_t s = 0; s < other.staleness.size(); ++s) staleness[s] += other.staleness[s];
    for (std::size_t w = 0; w < other.weight.size(); ++w) weight[w] += other.weight[w];
    count += other.count;
    return *this;
  }
};

// Messages, or exchanges, that a worker's rule called for, and that did not leave as messages of
// their own.
struct Sends {
  std::uint64_t merged = 0;    // went with one that had not left yet
  std::uint64_t withheld = 0;  // there was nobody to send them to
};

// What it cost this rank to make messages shorter, and what that saved.
struct Coding {
  double encode_s = 0, decode_s = 0;
  std::uint64_t plain_bytes = 0;  // that it would have sent of the same numbers as they are
  std::uint64_t sent_bytes = 0;
  std::uint64_t encoded = 0, decoded = 0;  // numbers: those of every message count

  Coding& operator+=(const Coding& other) {
    encode_s += other.encode_s;
    decode_s += other.decode_s;
    plain_bytes += other.plain_bytes;
    sent_bytes += other.sent_bytes;
    encoded += other.encoded;
    decoded += other.decoded;
    return *this;
  }
  // The bandwidth, in bytes a second, at which a rank would need as long to send what it saves as
  // it takes to encode and decode: above it, compression stops paying. Overlap does not change it,
  // since it hides coding and sending alike: a rank does both on one lane, one after the other.
  // None: it has cost no time, or saved nothing.
  std::optional<double> break_even_bytes_per_s() const {
    if (encode_s + decode_s <= 0 || plain_bytes <= sent_bytes) return {};
    return static_cast<double>(plain_bytes - sent_bytes) / (encode_s + decode_s);
  }
};

// What coding takes in simulation: seconds for each number. In the real world it takes its own
// time.
struct CodingCost {
  double encode_s_per_number = 0, decode_s_per_number = 0;
};

// What it took this rank to exchange one bucket, in all exchanges with the present plan.
struct BucketFigures {
  std::size_t numbers = 0;
  Coding coding;          // bytes also where numbers go as they are
  double exchange_s = 0;  // of messages, with waiting for the other ranks
  double hidden_s = 0;    // of encoding, messages and decoding: beside the computation
};

struct Figures {
  // Of this process's part of the run.
  double waited_s = 0;  // of update() and serve(), in which this rank only waited for others
  double hidden_s = 0;  // in which exchanges went on beside the computation
  Contributions contributions;  // to the numbers that this rank holds
  Coding coding;
  // Of gradients, in the order in which they are sent; empty: all go together.
  std::vector<BucketFigures> buckets;
  std::vector<BucketSpan> spans;  // of the last exchange, on this rank's clock
  // Of the whole run, what was before a resume among it.
  Sends sends;
};

}  // namespace lockstep
