#include "bench/participant.h"

#include <algorithm>
#include <cmath>

#include "bench/pattern.h"

namespace lockstep::bench {
namespace {

constexpr double kMicro = 1e6;
constexpr double kTickSeconds = 20e-6;
constexpr std::size_t kMostInFlight = 16;
constexpr std::size_t kMostStreamBytes = 64 << 20;

// In place, so the sum of one round would be the next one's input: refill, outside the timed part.
void get_ready(const Work& work, Participant& me, Values values) {
  fill(values.bytes(), work.type, contribution(me.rank()));
  me.barrier();
}

// Ranks leave a barrier further apart than a small operation is long, so all start at the next full
// tick of their common clock. A rank that just missed it starts one tick late; the median doesn't
// see that.
double common_start(const Participant& me) {
  if (me.virtual_time() || !me.common_clock()) return me.now();
  const double start = (std::floor(me.now() / kTickSeconds) + 2) * kTickSeconds;
  while (me.now() < start) {
  }
  return start;
}

double timed_all_reduce(const Work& work, Participant& me, Values values) {
  get_ready(work, me, values);
  const double start = common_start(me);
  me.all_reduce(work, values);
  return (me.now() - start) * kMicro;
}

// Returns the time.
double count_bytes(const Work& work, Participant& me, Values values, Result& result) {
  get_ready(work, me, values);
  const double start = me.now();
  result.bytes_sent_total = result.bytes_sent_busiest = me.counted_all_reduce(work, values);
  return (me.now() - start) * kMicro;
}

Result measure_all_reduce(const Work& work, Participant& me) {
  const Values values(me.buffer(work.bytes).data, work.bytes / size_of(work.type), work.type);
  Result result;
  result.chosen = me.chosen(work, values);
  const auto verify = [&] {
    if (values.is_hollow()) return;
    const auto wrong = count_wrong(values.bytes(), work.type, sum_of_contributions(me.size()));
    result.wrong = result.wrong.value_or(0) + wrong;
  };
  // One of the warm-up rounds is counted, or one more where there are none; or the first timed one.
  for (int i = 1; i < work.warmup; ++i) timed_all_reduce(work, me, values);
  const double counted_us = count_bytes(work, me, values, result);
  verify();
  if (me.virtual_time()) result.times_us.push_back(counted_us);
  while (static_cast<int>(result.times_us.size()) < work.iterations)
    result.times_us.push_back(timed_all_reduce(work, me, values));
  verify();
  return result;
}

double timed_round_trip(Participant& me, Bytes message) {
  me.barrier();
  const double start = me.now();
  if (me.rank() == 0) {
    me.send(1, message, 1);
    me.recv(1, message, 1);
  } else if (me.rank() == 1) {
    me.recv(0, message, 1);
    me.send(0, message, 1);
  }
  return (me.now() - start) * kMicro;
}

double timed_stream(Participant& me, Bytes messages, int count, Bytes token) {
  me.barrier();
  const double start = me.now();
  if (me.rank() == 0) {
    me.send(1, messages, count);
    me.recv(1, token, 1);
  } else if (me.rank() == 1) {
    me.recv(0, messages, count);
    me.send(0, token, 1);
  }
  return (me.now() - start) * kMicro / count;
}

Result measure_p2p(const Work& work, Participant& me) {
  const int in_flight =
      static_cast<int>(std::clamp<std::size_t>(kMostStreamBytes / work.bytes, 1, kMostInFlight));
  const std::size_t token_bytes = size_of(work.type);
  const Bytes all = me.buffer(work.bytes * in_flight + token_bytes);
  const Bytes stream = all.part(0, work.bytes * in_flight);
  const Bytes token = all.part(stream.size, token_bytes);
  const Pattern right = contribution(0);
  Result result;
  result.chosen = me.chosen(work, Values(all.data, all.size / size_of(work.type), work.type));
  fill(all, work.type, contribution(me.rank()));
  for (int i = 0; i < work.warmup + work.iterations; ++i) {
    const double round_trip_us = timed_round_trip(me, all.part(0, work.bytes));
    const double stream_us = timed_stream(me, stream, in_flight, token);
    if (me.rank() != 0 || i < work.warmup) continue;
    result.times_us.push_back(round_trip_us / 2);
    result.stream_us.push_back(stream_us);
  }
  if (!all.hollow()) result.wrong = me.rank() > 1 ? 0 : count_wrong(stream, work.type, right);
  return result;
}

}  // namespace

Result measure(const Work& work, Participant& me) {
  return work.operation == Operation::p2p ? measure_p2p(work, me) : measure_all_reduce(work, me);
}

}  // namespace lockstep::bench
