// What the bench asks of a rank and what the rank answers, each one line of JSON on a pipe; and the
// sizes that a benchmark goes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/values.h"

namespace lockstep::bench {

enum class Operation : std::uint8_t { allreduce, p2p, pushpull };
std::string_view name_of(Operation);

struct Work {
  Operation operation = Operation::allreduce;
  // Ours: a name from the table; the peers have their own. Of pushpull: the strategy.
  std::string collective;
  Type type = Type::fp32;
  std::size_t bytes = 0;  // whole elements
  int warmup = 0;
  int iterations = 1;
  int servers = 0;  // pushpull: the last so many ranks serve the others
};

// A measurement: one rank's, or several ranks' joined.
struct Result {
  std::vector<double> times_us;        // by iteration; p2p: half a round trip, rank 0 only
  std::vector<double> stream_us;       // p2p: time per message of a one-way stream, rank 0 only
  std::optional<std::uint64_t> wrong;  // elements; none where values are hollow
  // For one operation, where the engine counts: over all ranks, and by the rank that sent most.
  std::optional<std::uint64_t> bytes_sent_total, bytes_sent_busiest;
  std::string chosen;  // the algorithm that ran
  // pushpull: a copy of as many bytes, taken after each iteration while all else rests; one rank
  // only.
  std::vector<double> memcpy_us = {};
};

// The slowest of each iteration; errors and bytes added up.
Result join(const std::vector<Result>&);

std::string to_line(const Work&);
Work work_from(const std::string& line);  // InternalError if it isn't one
// An answer is a result, or the sentence that says why there is none.
std::string to_line(const Result&);
std::string failure_line(const std::string& reason);
Result result_from(const std::string& line);  // InternalError with the reason if it failed

// The sizes a benchmark goes through. Pure.

// first, first*factor, … and last, all rounded down to whole elements, without repeats.
// UsageError if there is no such list.
std::vector<std::size_t> sizes_between(std::size_t first, std::size_t last, int factor,
                                       std::size_t element_bytes);

}  // namespace lockstep::bench
