#include "bench/participant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

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

Pattern times(int factor, Pattern p) { return {factor * p.slope, factor * p.base}; }

// What a worker may find at servers in a round of pushes.
struct PullCheck {
  int me, workers;
  int least;       // so many pushes of this round are in, or more; this worker's own is one of them
  Pattern before;  // what all earlier rounds have added

  // Of one server's numbers, the first of which is number `first`. How many pushes are in is one
  // number for all of them, and the slope tells.
  std::size_t count_wrong_of(Values part, std::size_t first) const {
    const auto wrong_by = [&](Values values, Pattern p) {
      return count_wrong(values.bytes(), values.type(), p, first);
    };
    std::vector<int> others;
    for (int r = 0; r < workers; ++r)
      if (r != me) others.push_back(contribution(r).base);
    std::ranges::sort(others);
    float start = 0;
    std::memcpy(&start, part.bytes().data, sizeof start);
    if (!(std::abs(start) <= 1 << 24)) start = 0;  // no sum of contributions
    for (int in = least; in < workers; ++in) {
      const int own = before.base + contribution(me).base;
      const int low = std::accumulate(others.begin(), others.begin() + in - 1, own);
      const int high = std::accumulate(others.end() - (in - 1), others.end(), own);
      const int slope = before.slope + in;
      const Pattern p{slope, static_cast<int>(start) - element({slope, 0}, first)};
      const Values some = part.part({0, std::min<std::size_t>(kPeriod, part.count())});
      if (p.base >= low && p.base <= high && wrong_by(some, p) == 0) return wrong_by(part, p);
    }
    const Pattern all = sum_of_contributions(workers);
    return wrong_by(part, {before.slope + all.slope, before.base + all.base});
  }
};

// By rank 0 alone, while the other workers wait for it.
void time_memcpy(Participant& me, Values from, std::vector<std::byte>& into, Result& result) {
  if (me.rank() != 0 || me.virtual_time()) return;
  const double start = me.now();
  std::memcpy(into.data(), from.bytes().data, into.size());
  result.memcpy_us.push_back((me.now() - start) * kMicro);
}

void work_for_servers(const Work& work, Participant& me, PushPull& talk, Result& result) {
  const Values pushed = talk.pushed(), pulled = talk.pulled();
  const int workers = me.size() - work.servers, rounds = work.warmup + work.iterations;
  // Of a mean, so many times as much: either way a round adds the sum of all contributions.
  fill(pushed.bytes(), work.type, times(talk.averages() ? workers : 1, contribution(me.rank())));
  std::vector<std::byte> copied(me.rank() == 0 && !me.virtual_time() ? work.bytes : 0);
  if (!pulled.is_hollow()) result.wrong = 0;
  const auto verify = [&](int round, int least) {
    const PullCheck check{me.rank(), workers, least, times(round, sum_of_contributions(workers))};
    for (int k = 0; result.wrong && k < work.servers; ++k)
      if (const Slice shard = chunk(pulled.count(), work.servers, k); shard.count > 0)
        *result.wrong += check.count_wrong_of(pulled.part(shard), shard.begin);
  };
  for (int round = 0; round < rounds; ++round) {
    talk.barrier();
    const double start = common_start(me);
    talk.push_and_pull(round);
    const double us = (me.now() - start) * kMicro;
    if (round >= work.warmup) result.times_us.push_back(us);
    talk.barrier();
    if (round >= work.warmup) time_memcpy(me, pushed, copied, result);
    talk.barrier();
    verify(round, talk.averages() ? workers : 1);
  }
  talk.rest();
  verify(rounds - 1, workers);
}

Result measure_push_pull(const Work& work, Participant& me) {
  const auto talk = me.push_pull(work);
  const int rounds = work.warmup + work.iterations;
  Result result;
  result.chosen = work.collective;
  if (talk->serves())
    talk->serve(rounds);
  else
    work_for_servers(work, me, *talk, result);
  if (const auto bytes = talk->bytes_sent())
    result.bytes_sent_total = result.bytes_sent_busiest = *bytes / rounds;
  return result;
}

}  // namespace

Result measure(const Work& work, Participant& me) {
  switch (work.operation) {
    case Operation::p2p:
      return measure_p2p(work, me);
    case Operation::pushpull:
      return measure_push_pull(work, me);
    default:
      return measure_all_reduce(work, me);
  }
}

}  // namespace lockstep::bench
