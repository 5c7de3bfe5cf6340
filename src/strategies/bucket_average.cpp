#include "strategies/bucket_average.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/all_gather.h"
#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "strategies/average.h"

namespace lockstep {
namespace {

// Memory for messages about such numbers.
Scratch room_for(Values numbers, std::size_t bytes) {
  static std::byte some;
  return {numbers.is_hollow() ? Values::hollow(1, Type::bytes) : Values(&some, 1, Type::bytes),
          bytes};
}

// Messages start at addresses that are divisible by 4.
std::size_t aligned(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

void set_zero(Values values) {
  if (!values.is_hollow() && values.count() > 0)
    std::memset(values.bytes().data, 0, values.bytes().size);
}

// Does one part of an exchange and notes it. `act` returns the bytes of its messages; coding goes
// over so many numbers.
template <class Act>
std::size_t noted(const BucketTerms& terms, Transport& lane, BucketSpan::Part part,
                  std::size_t numbers, Act&& act) {
  using Part = BucketSpan::Part;
  const double start = lane.now();
  const std::size_t bytes = act();
  const CodingCost& cost = terms.crew.coding_cost;
  if (part != Part::exchange)
    terms.crew.rank.clock.charge(static_cast<double>(numbers) * (part == Part::encode
                                                                     ? cost.encode_s_per_number
                                                                     : cost.decode_s_per_number));
  const double end = lane.now();
  // Messages that are encoded one after the other are shown as one.
  std::vector<BucketSpan>& spans = terms.spans;
  const bool goes_on =
      !spans.empty() && spans.back().part == part && spans.back().bucket == terms.bucket;
  if (!goes_on) spans.push_back({part, terms.bucket, start, end, 0});
  spans.back().end = end;
  spans.back().bytes += bytes;
  if (part == Part::exchange) {
    terms.figures.exchange_s += end - start;
    return bytes;
  }
  for (Coding* coding : {&terms.figures.coding, &terms.coding}) {
    (part == Part::encode ? coding->encode_s : coding->decode_s) += end - start;
    (part == Part::encode ? coding->encoded : coding->decoded) += numbers;
  }
  return bytes;
}

// What the averages by messages share.
class Encoded : public BucketAverage {
 public:
  explicit Encoded(const BucketTerms& terms)
      : terms_(terms), code_(terms.compression->make ? terms.compression->make() : nullptr) {}

 protected:
  int workers() const { return terms_.crew.workers; }
  int me() const { return terms_.crew.rank.rank(); }
  Values numbers() const { return terms_.numbers; }
  std::size_t count() const { return terms_.numbers.count(); }

  // A message of that rank's in that step.
  Draw draw(std::uint64_t step, int rank, int message = 0) const {
    return {terms_.crew.rank.seed, rank, step, terms_.bucket, static_cast<std::uint32_t>(message)};
  }
  // The code, with these memories, all of that part of the numbers.
  std::unique_ptr<Compressor> with_memories(std::span<const Values> memories, Slice part) const {
    std::vector<Values> own;
    for (const Values& memory : memories) own.push_back(memory.part(part));
    return remembering(*terms_.compression, *code_, own, terms_.optimiser);
  }
  std::size_t encode(Transport& lane, Compressor* with, Values from, Bytes message,
                     const Draw& draw) const {
    return noted(terms_, lane, BucketSpan::Part::encode, from.count(),
                 [&] { return (with ? *with : *code_).encode(from, message, draw); });
  }
  template <class Act>
  void exchange(Transport& lane, Act&& act) const {
    noted(terms_, lane, BucketSpan::Part::exchange, 0, act);
  }
  template <class Act>
  void decode(Transport& lane, std::size_t numbers, Act&& act) const {
    noted(terms_, lane, BucketSpan::Part::decode, numbers, act);
  }

  const BucketTerms terms_;
  const std::unique_ptr<Compressor> code_;
};

// Numbers as they are, by the crew's all-reduce.
class Plain final : public BucketAverage {
 public:
  explicit Plain(const BucketTerms& terms) : terms_(terms) {}

  void run(Transport& lane, Tag tag, std::uint64_t, std::span<const double>) override {
    noted(terms_, lane, BucketSpan::Part::exchange, 0, [&] {
      terms_.crew.collective.run(lane, tag, terms_.numbers.as(Op::mean));
      return sent_;
    });
  }
  std::uint64_t bytes_sent(int rank) const override {
    return average_bytes(terms_.crew, rank, terms_.numbers);
  }

 private:
  const BucketTerms terms_;
  const std::uint64_t sent_ = bytes_sent(terms_.crew.rank.rank());
};

// Additive and seeded: messages are numbers, which the crew's all-reduce averages.
class Summed final : public Encoded {
 public:
  explicit Summed(const BucketTerms& terms)
      : Encoded(terms),
        message_(room_for(numbers(), code_->most_bytes(count()))),
        keeps_(with_memories(terms.memories, {0, count()})) {}

  void run(Transport& lane, Tag tag, std::uint64_t step, std::span<const double>) override {
    const Bytes message = message_.values().bytes();
    encode(lane, keeps_.get(), numbers(), message, draw(step, me()));
    exchange(lane, [&] {
      terms_.crew.collective.run(lane, tag, values_in(*terms_.compression, message, Op::mean));
      return sent_;
    });
    decode(lane, count(), [&] {
      code_->decode(message, draw(step, me()), numbers());
      return message.size;
    });
  }
  std::uint64_t bytes_sent(int rank) const override {
    return average_bytes(terms_.crew, rank,
                         values_in(*terms_.compression, message_.values().bytes(), Op::mean));
  }

 private:
  const Scratch message_;
  const std::unique_ptr<Compressor> keeps_;
  const std::uint64_t sent_ = bytes_sent(me());
};

// Every worker owns a chunk (see slices.h): it adds up what the others send it, encodes the mean of
// that once more, sends it to all, and takes what that decodes to itself. Its own numbers of the
// chunk it never sends, so they are added as they are. Two rounds, straight from everybody to
// everybody: worker r sends the messages of all chunks but its own, and m-1 times that of its own.
class TwoShot final : public Encoded {
 public:
  explicit TwoShot(const BucketTerms& terms)
      : Encoded(terms),
        chunks_(layout(terms.numbers.count(), terms.crew.workers)),
        first_(room_for(numbers(), chunks_.back().end)),
        arriving_(room_for(numbers(), workers() * own().room)) {
    for (int w = 0; w < workers(); ++w)
      keeps_.push_back(w == me() ? nullptr : with_memories(terms.memories, chunks_[w].slice));
    if (terms.second) keeps_[me()] = with_memories({&*terms.second, 1}, own().slice);
  }

  void run(Transport& lane, Tag tag, std::uint64_t step, std::span<const double>) override {
    const Values mine = numbers().part(own().slice);
    for (int w = 0; w < workers(); ++w)
      if (w != me())
        encode(lane, keeps_[w].get(), numbers().part(chunks_[w].slice), message(w).bytes(),
               draw(step, me(), w));
    everyone(
        lane, tag, [&](int w) { return message(w); }, [&](int w) { return arrived(w); });
    decode(lane, (workers() - 1) * mine.count(), [&] {
      add_up(step, mine);
      return (workers() - 1) * own().bytes;
    });
    encode(lane, keeps_[me()].get(), mine, message(me()).bytes(), draw(step, me(), workers()));
    everyone(
        lane, tag, [&](int) { return message(me()); }, [&](int w) { return message(w); });
    decode(lane, count(), [&] {
      std::size_t bytes = 0;
      for (int w = 0; w < workers(); ++w) {
        code_->decode(message(w).bytes(), draw(step, w, workers()),
                      numbers().part(chunks_[w].slice));
        bytes += chunks_[w].bytes;
      }
      return bytes;
    });
  }

  std::uint64_t bytes_sent(int rank) const override {
    std::uint64_t bytes = (workers() - 1) * chunks_[rank].bytes;
    for (int w = 0; w < workers(); ++w)
      if (w != rank) bytes += chunks_[w].bytes;
    return bytes;
  }

 private:
  struct Chunk {
    Slice slice;
    std::size_t begin, bytes, room, end;  // of its message: where it lies, how long it is
  };
  std::vector<Chunk> layout(std::size_t count, int workers) const {
    std::vector<Chunk> chunks;
    std::size_t at = 0;
    for (int w = 0; w < workers; ++w) {
      const Slice slice = chunk(count, workers, w);
      // Of such codes every message is as long as it can be.
      const std::size_t bytes = code_->most_bytes(slice.count), room = aligned(bytes);
      chunks.push_back({slice, at, bytes, room, at + room});
      at += room;
    }
    return chunks;
  }
  const Chunk& own() const { return chunks_[me()]; }
  // The message of that worker's chunk, and what that worker sent of mine.
  Values message(int w) const { return first_.values({chunks_[w].begin, chunks_[w].bytes}); }
  Values arrived(int w) const { return arriving_.values({w * own().room, own().bytes}); }

  template <class Out, class In>
  void everyone(Transport& lane, Tag tag, Out&& out, In&& in) const {
    exchange(lane, [&] {
      std::size_t bytes = 0;
      Messages messages(lane, tag);
      for (int s = 1; s < workers(); ++s) {
        const int to = (me() + s) % workers(), from = (me() - s + workers()) % workers();
        messages.send(to, out(to));
        messages.take(from, in(from));
        bytes += out(to).bytes().size;
      }
      messages.run();
      return bytes;
    });
  }

  // In an order that is fixed by rank, mine first.
  void add_up(std::uint64_t step, Values mine) const {
    // Another plan may have left something there, as long as it was another's.
    if (terms_.compression->memories > 0) {
      const Values left = terms_.memories[0].part(own().slice);
      combine(mine.as(Op::sum), left.bytes());
      set_zero(left);
    }
    for (int w = 0; w < workers(); ++w)
      if (w != me()) code_->add(arrived(w).bytes(), draw(step, w, me()), 1, mine);
    scale(mine, 1.0 / workers());
  }

  const std::vector<Chunk> chunks_;
  const Scratch first_, arriving_;
  std::vector<std::unique_ptr<Compressor>> keeps_;  // by chunk; mine: of the second message
};

// Every worker gets all messages and adds them up in the order of ranks; or they vote, each by its
// share, so that a worker without samples has no vote.
class Gathered final : public Encoded {
 public:
  Gathered(const BucketTerms& terms, bool votes)
      : Encoded(terms),
        votes_(votes),
        parts_(parts_of_messages()),
        slot_(parts_.back().begin + aligned(parts_.back().most)),
        slots_(room_for(numbers(), workers() * slot_)),
        bytes_(workers()) {}

  void run(Transport& lane, Tag tag, std::uint64_t step, std::span<const double> shares) override {
    std::size_t bytes = 0;
    for (const Part& part : parts_)
      bytes = part.begin + encode(lane, part.keeps.get(), numbers().part(part.numbers),
                                  slots_.values({me() * slot_ + part.begin, part.most}).bytes(),
                                  draw(step, me(), part.number));
    exchange(lane, [&] {
      bytes_ = all_gather_slots(lane, tag, slots_.values(), bytes);
      return bytes_sent(me());
    });
    if (votes_ && !terms_.memories.empty()) {
      copy(terms_.memories[0].bytes(), numbers().bytes());
      code_->add(message(me(), parts_[0]), draw(step, me()), -static_cast<float>(shares[me()]),
                 terms_.memories[0]);
    }
    decode(lane, workers() * count(), [&] {
      set_zero(numbers());
      for (const Part& part : parts_)
        for (int w = 0; w < workers(); ++w)
          code_->add(message(w, part), draw(step, w, part.number),
                     votes_ ? static_cast<float>(shares[w]) : 1.f, numbers().part(part.numbers));
      votes_ ? count_votes() : scale(numbers(), 1.0 / workers());
      return std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0});
    });
  }

  // Round the ring; and how long each message is, to everybody.
  std::uint64_t bytes_sent(int rank) const override {
    std::uint64_t bytes = sizeof(std::uint64_t) * (workers() - 1);
    for (int w = 0; workers() > 1 && w < workers(); ++w)
      if (w != (rank + 1) % workers()) bytes += bytes_[w];
    return bytes;
  }

 private:
  // Of each worker's message: all of it, or the message of one tensor.
  struct Part {
    Slice numbers;
    std::size_t begin, most;  // bytes
    int number;
    std::unique_ptr<Compressor> keeps = {};
  };
  std::vector<Part> parts_of_messages() const {
    std::vector<Part> parts;
    const auto add = [&](Slice part) {
      const std::size_t begin = parts.empty() ? 0 : parts.back().begin + aligned(parts.back().most);
      auto keeps = votes_ ? nullptr : with_memories(terms_.memories, part);
      const std::size_t most = (keeps ? *keeps : *code_).most_bytes(part.count);
      const int number = static_cast<int>(parts.size());
      parts.push_back({part, begin, most, number, std::move(keeps)});
    };
    if (terms_.compression->by_tensor)
      for (const Tensor2d& tensor : terms_.tensors) add({tensor.begin, tensor.count()});
    if (parts.empty()) add({0, count()});
    return parts;
  }
  // The last part ends with the message; those before it are as long as they can be.
  ConstBytes message(int w, const Part& part) const {
    const std::size_t there = bytes_[w] - std::min(bytes_[w], part.begin);
    return slots_.values({w * slot_ + part.begin, std::min(there, part.most)}).bytes();
  }

  void count_votes() const {
    if (!terms_.second) return vote(numbers());
    copy(terms_.second->bytes(), numbers().bytes());
    scale(*terms_.second, -1.0 / workers());
    vote(numbers());
    combine(terms_.second->as(Op::sum), numbers().bytes());
    scale(*terms_.second, -1);
  }

  const bool votes_;
  const std::vector<Part> parts_;
  const std::size_t slot_;  // bytes for each worker's message
  const Scratch slots_;
  std::vector<std::size_t> bytes_;  // of each worker's, the last time
};

// PowerSGD: see compression/low_rank.h. Both means are the crew's all-reduce.
class Factored final : public Encoded {
 public:
  explicit Factored(const BucketTerms& terms)
      : Encoded(terms),
        plain_(terms),
        low_rank_(terms.compression->low_rank, terms.tensors, terms.memories[0],
                  mixed(terms.crew.rank.seed) + terms.bucket) {}

  void run(Transport& lane, Tag tag, std::uint64_t step, std::span<const double> shares) override {
    was_plain_ = step < terms_.compression->low_rank.start;
    if (was_plain_) return plain_.run(lane, tag, step, shares);
    const Values left = encoded(lane, [&] { return low_rank_.left(numbers()); });
    left_ = left.count();
    average(lane, tag, left);
    const Values right = encoded(lane, [&] { return low_rank_.right(); });
    if (right.count() > 0) average(lane, tag, right);
    decode(lane, count(), [&] {
      low_rank_.finish(numbers());
      return left.bytes().size + right.bytes().size;
    });
  }
  std::uint64_t bytes_sent(int rank) const override {
    if (was_plain_) return plain_.bytes_sent(rank);
    return bytes_of(rank, left_) + bytes_of(rank, right_);
  }
  Values basis() override { return low_rank_.kept(); }

 private:
  std::uint64_t bytes_of(int rank, std::size_t count) const {
    return count == 0 ? 0 : average_bytes(terms_.crew, rank, Values::hollow(count, Type::fp32));
  }
  template <class Make>
  Values encoded(Transport& lane, Make&& make) {
    Values factor(nullptr, 0, Type::fp32);
    noted(terms_, lane, BucketSpan::Part::encode, count(), [&] {
      factor = make();
      return factor.bytes().size;
    });
    return factor;
  }
  void average(Transport& lane, Tag tag, Values factor) {
    exchange(lane, [&] {
      terms_.crew.collective.run(lane, tag, factor);
      return bytes_of(me(), factor.count());
    });
  }

  Plain plain_;
  LowRank low_rank_;
  bool was_plain_ = true;
  std::size_t left_ = 0;
  const std::size_t right_ = low_rank_.kept().count();
};

}  // namespace

Averaging averaging_for(const Compression& compression, Purpose of) {
  const bool is_summed = compression.averaging == Averaging::additive;
  const bool exact = compression.memories > 0 || of == Purpose::weights;
  return is_summed && exact ? Averaging::two_shot : compression.averaging;
}

std::unique_ptr<BucketAverage> make_bucket_average(const BucketTerms& terms) {
  if (!terms.compression) return std::make_unique<Plain>(terms);
  switch (averaging_for(*terms.compression, terms.of)) {
    case Averaging::additive:
    case Averaging::seeded:
      return std::make_unique<Summed>(terms);
    case Averaging::two_shot:
      return std::make_unique<TwoShot>(terms);
    case Averaging::gathered:
      return std::make_unique<Gathered>(terms, false);
    case Averaging::voted:
      return std::make_unique<Gathered>(terms, true);
    case Averaging::low_rank:
      return std::make_unique<Factored>(terms);
  }
  throw InternalError("a compression without a way to average");
}

}  // namespace lockstep
