// Bulk-synchronous parameter server (Valiant: A bridging model for parallel computation, 1990; Li
// et al.: Scaling distributed machine learning with the parameter server, 2014). The parameters are
// cut into as many shards as there are servers. In every step each worker pushes the shards of its
// gradient to their servers; a server adds them up in the order of ranks, takes one step with the
// mean, and the workers pull the new weights.
//
// Dedicated servers sum as `master-worker` does (0, 1, …), co-located ones as `round-robin` (own,
// then r-1, r-2, …), and give the same bits. A worker sends N elements, server k sends m|s_k|;
// co-located, worker k sends N - |s_k| + (m-1)|s_k|: with a shard each, round-robin's 2N(m-1)/m.
//
// Where the run has a code for pushes (see push_code.h) a co-located server sums what its own
// message would bring too: all workers count by what they sent. A shard is one message, unless the
// code may go in pieces.
//
// Where the run cuts pushes into buckets (see bucket_feed.h) each goes through all of that by
// itself; with overlap while backward still runs, on the background's lane. Then what dedicated
// servers answer lands beside the weights, which backward may still need, and takes their place in
// update(). Co-located servers, whose weights are a worker's own, only sum while backward runs;
// they step and are pulled from in update().
#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

#include "collectives/gather.h"
#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "strategies/average.h"
#include "strategies/bucket_feed.h"
#include "strategies/push_code.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

// Pieces of a shard on its way to a dedicated server, so that the first come back while the last
// are still to go; few enough for a simulator, which pays for each and for all pairs under way.
std::size_t pieces_for(int workers) {
  return std::clamp<std::size_t>(1024 / static_cast<std::size_t>(workers), 4, 16);
}
constexpr std::size_t kLeastPieceBytes = 256 * 1024;  // else messages cost more than waiting

class ParameterServer final : public Strategy,
                              public Statement,
                              public Fed,
                              public Serving,
                              public Measured {
 public:
  explicit ParameterServer(const Crew& crew)
      : Strategy(crew, {.statement = this, .fed = this, .serving = this, .measured = this}),
        code_(make_push_code(crew)),
        overlaps_(crew.push_buckets && crew.push_buckets->overlap),
        jobs_(
            crew.rank, crew.push_buckets.value_or(BucketRule{}), overlaps_,
            [this](std::size_t bucket, Transport& lane) { exchange(bucket, lane); },
            [this](const std::string& plan) { return text_of_first(crew_.rank.peers, plan); }) {}

  void begin(Replica& replica) override {
    gradients_ = replica.gradients();
    weights_ = replica.weights();
    needs_whole_layers_ = replica.needs_whole_layers();
    jobs_.feed().begin(replica.parameters());
    if (!crew_.works()) return;
    code_->begin(*gradients_, replica.parameters());
    if (pulls_beside()) landing_.emplace(*weights_, weights_->count());
  }

  void expect(Replica&, const Step& step) override { open(step); }
  void ready(Slice part) override { jobs_.feed().ready(part); }
  bool begins_early() const override { return overlaps_; }

  void update(Replica& replica, const Step& step) override {
    act(replica, step);
    if (landing_) copy(weights_->bytes(), landing_->values().bytes());
    if (overlaps_ && crew_.colocated) step_and_pull(replica, step);
  }
  void serve(Replica& replica, const StepAt& step_at, std::uint64_t first,
             std::uint64_t end) override {
    for (std::uint64_t t = first; t < end; ++t) act(replica, step_at(t));
  }

  // All workers have the same weights.
  void read_model(Replica& replica, Values model) override {
    copy(model.bytes(), replica.weights().bytes());
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    std::vector<Flow> flows;
    for (int k = 0; k < crew_.servers; ++k) {
      const int server = crew_.rank_of_server(k);
      const bool has_it = rank < crew_.workers || rank == server;
      flows.push_back({crew_.shard(k, count), {}, only(has_it ? server : rank, crew_.ranks())});
      if (rank != server) continue;
      Flow& flow = flows.back();
      flow.gradients = mean_factors(step.samples, crew_.workers);
      flow.gradients_hold = code_->holds();
      for (int w = 0; w < crew_.workers; ++w)
        for (const OfMemory& of : code_->stated())
          flow.memories_in_gradients.push_back(
              {w, of.which, of.before / crew_.workers, of.after / crew_.workers});
    }
    return flows;
  }
  std::vector<Flow> flows_of_memory(std::size_t which, const Step& step, int rank,
                                    std::size_t count) const override {
    std::vector<Flow> flows;
    for (int k = 0; k < crew_.servers; ++k) {
      Flow& flow =
          flows.emplace_back(Flow{crew_.shard(k, count), {}, std::vector<double>(crew_.ranks())});
      if (rank >= crew_.workers) continue;
      flow.gradients.resize(crew_.workers);
      flow.gradients[rank] = shares_of(step.samples)[rank];
      for (const OfMemory& of : code_->stated())
        flow.memories_in_weights.push_back({rank, of.which, of.before});
      flow.weights_hold = code_->holds_of_memory(which);
    }
    return flows;
  }

  // With a code whose messages are as long as the numbers make them: of this rank alone, in the
  // last step.
  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override {
    const std::size_t own = shard_at(rank, count).count;
    const std::size_t numbers = rank < crew_.workers ? count - own : 0;
    const std::size_t pulled = own * (crew_.workers - (crew_.colocated ? 1 : 0));
    const std::size_t pushed = crew_.push_codes ? pushed_bytes_ : numbers * size_of(Type::fp32);
    return pushed + pulled * size_of(Type::fp32);
  }

  const Figures& figures() override { return figures_; }

  std::vector<Kept> memories() override { return code_->memories(); }
  std::string state() const override { return jobs_.feed().state_with(code_->state()); }
  void restore(const std::string& state) override {
    code_->restore(jobs_.feed().restore_from(state));
  }

 private:
  // The shard that this rank serves; empty if it serves none.
  Slice shard_at(int rank, std::size_t count) const {
    const int k = crew_.colocated ? rank : rank - crew_.workers;
    return k >= 0 && k < crew_.servers ? crew_.shard(k, count) : Slice{};
  }

  // Pushes and pulls share the lines of co-located servers, and overlap on those of others. Where
  // the optimiser needs whole layers it steps the whole shard at once.
  std::size_t piece_bytes(Values shard) const {
    if (needs_whole_layers_) return std::numeric_limits<std::size_t>::max();
    if (crew_.colocated) return segment_bytes_if_busy(shard);
    const std::size_t pieces = pieces_for(crew_.workers);
    const std::size_t bytes =
        std::max(kLeastPieceBytes, (shard.bytes().size + pieces - 1) / pieces);
    return shard.is_hollow() ? bytes : std::min(bytes, kSegmentBytes);
  }

  // Do weights arrive while backward still needs the old ones?
  bool pulls_beside() const { return overlaps_ && !crew_.colocated; }

  void open(const Step& step) {
    step_ = step.number;
    share_ = crew_.works() ? shares_of(step.samples)[crew_.rank.rank()] : 1;
    pushed_bytes_ = 0;
    jobs_.open();
  }
  void act(Replica& replica, const Step& step) {
    replica_ = &replica;
    if (!jobs_.feed().is_open()) open(step);
    jobs_.finish();
    figures_.coding = code_->coding();
    figures_.hidden_s = jobs_.hidden_s();
    if (crew_.push_buckets) figures_.buckets = jobs_.figures();
  }

  // Buckets of one step are as far apart as steps are.
  Tag tag(Purpose purpose, std::size_t bucket) const {
    return tag_of(purpose, {.number = step_ + bucket, .epoch = 0, .samples = {}});
  }
  // Of a bucket, by the server that has it.
  std::size_t longest_part(Slice bucket) const {
    std::size_t longest = 0;
    for (int k = 0; k < crew_.servers; ++k)
      longest = std::max(longest, common(crew_.shard(k, weights_->count()), bucket).count);
    return longest;
  }
  // Where what is pulled arrives.
  Values landing() const { return landing_ ? landing_->values() : *weights_; }

  // All of one bucket, but where a co-located server has to wait for the end of backward.
  void exchange(std::size_t b, Transport& lane) {
    const Slice bucket = jobs_.feed().buckets()[b];
    if (share_ != 1) scale(gradients_->part(bucket), share_);
    if (!crew_.push_codes) return exchange_plain(b, bucket, lane);
    code_->goes_in_pieces() ? exchange_pieces(b, bucket, lane) : exchange_encoded(b, bucket, lane);
  }

  // Push, sum, step and pull of one bucket, piece by piece: a piece of a shard is on its way back
  // while the next still arrives. A rank does the part of a worker, of a server, or both.
  void exchange_plain(std::size_t b, Slice bucket, Transport& lane) {
    const Values gradients = gradients_->as(Op::mean), weights = *weights_;
    const Slice own = common(shard_at(lane.rank(), weights.count()), bucket);
    if (crew_.ranks() == 1) {
      if (!overlaps_) replica_->apply_gradients(step_, own);
      return;
    }
    Messages messages(lane, tag(Purpose::gradients, b),
                      piece_bytes(gradients.part({0, longest_part(bucket)})));
    // A server takes a piece from one worker after the other: one that pushed far ahead of the
    // others would fill the line with what can't be summed yet.
    messages.open_at_once(gradients.is_hollow() ? 1 : crew_.colocated ? 8 : 2);
    for_each_server(bucket,
                    [&](int server, Slice part) { messages.send(server, gradients.part(part)); });
    const std::vector<int> workers = served_workers();
    std::span<const int> others = workers;
    auto first = Messages::kStart;  // a server that works has the first gradients
    if (!crew_.works()) {
      first = messages.take(workers[0], gradients.part(own));
      others = others.subspan(1);
    }
    const auto sum = messages.fold(others, gradients.part(own), crew_.workers, first);
    if (!overlaps_ || !crew_.colocated) {
      messages.then(sum, [&](Slice piece) {
        replica_->apply_gradients(step_, {own.begin + piece.begin, piece.count});
      });
      messages.under(tag(Purpose::weights, b));
      for (const int worker : workers) messages.send(worker, weights.part(own), sum);
      for_each_server(bucket,
                      [&](int server, Slice part) { messages.take(server, landing().part(part)); });
    }
    messages.run();
  }

  // What co-located servers leave to the end of backward.
  void step_and_pull(Replica& replica, const Step& step) {
    const Values weights = *weights_;
    const Slice own = shard_at(crew_.rank.rank(), weights.count());
    if (own.count > 0) replica.apply_gradients(step.number, own);
    Messages messages(crew_.rank.peers, tag_of(Purpose::weights, step),
                      piece_bytes(weights.part(crew_.shard(0, weights.count()))));
    for (const int worker : served_workers()) messages.send(worker, weights.part(own));
    for_each_server({0, weights.count()},
                    [&](int server, Slice part) { messages.take(server, weights.part(part)); });
    messages.run();
  }

  // The same by messages of the code, each of one piece.
  void exchange_pieces(std::size_t b, Slice bucket, Transport& lane) {
    const Slice own = common(shard_at(lane.rank(), weights_->count()), bucket);
    const bool pulls = !overlaps_ || !crew_.colocated;
    const std::vector<int> workers = served_workers();
    Messages messages(lane, tag(Purpose::gradients, b), std::numeric_limits<std::size_t>::max());
    messages.open_at_once(gradients_->is_hollow() ? 1 : crew_.colocated ? 8 : 2);

    std::deque<PushMessage> sent;
    for_each_server(bucket, [&](int server, Slice part) {
      for (const Slice piece : pieces_of(part, bucket)) {
        const ConstBytes bytes =
            sent.emplace_back(encoded(*code_, gradients_->part(piece), piece.begin)).bytes;
        messages.send(server, message_values(bytes));
        pushed_bytes_ += bytes.size;
      }
    });

    std::deque<Landed> landed;
    std::vector<std::pair<Slice, Messages::Step>> summed;
    for (const Slice piece : pieces_of(own, bucket)) {
      if (crew_.works()) sent.push_back(encoded(*code_, gradients_->part(piece), piece.begin));
      auto last = Messages::kStart;
      for (const int worker : workers) {
        Landed& push = landed.emplace_back(landed_from(worker, last == Messages::kStart, piece));
        const Values into = message_values(code_->landing(push.values.values(), push.memory));
        last = messages.take(worker, into, last);
        const bool completes = worker == workers.back();
        messages.then(last, [this, &push, &lane, pulls, completes, bytes = into.count()](Slice) {
          add_push(push, bytes, lane);
          if (completes) complete(push.part, pulls);
        });
      }
      if (workers.empty()) complete(piece, pulls);
      summed.emplace_back(piece, last);
    }

    if (pulls) {
      messages.under(tag(Purpose::weights, b));
      for (const auto& [piece, sum] : summed)
        for (const int worker : workers) messages.send(worker, weights_->part(piece), sum);
      for_each_server(bucket, [&](int server, Slice part) {
        for (const Slice piece : pieces_of(part, bucket))
          messages.take(server, landing().part(piece));
      });
    }
    messages.run();
  }
  // Of a shard's part of the bucket, as long as those of numbers as they are. So many numbers that
  // what a code puts under one scale stays together.
  std::vector<Slice> pieces_of(Slice part, Slice bucket) const {
    constexpr std::size_t kTogether = 4096;
    const std::size_t bytes = piece_bytes(gradients_->part({0, longest_part(bucket)}));
    const std::size_t most = bytes / size_of(Type::fp32) / kTogether * kTogether + kTogether;
    std::vector<Slice> all;
    for (std::size_t at = part.begin; at < part.end(); at += all.back().count)
      all.push_back({at, std::min(most, part.end() - at)});
    return all;
  }
  static Values message_values(ConstBytes bytes) {
    return {const_cast<std::byte*>(bytes.data), bytes.size, Type::bytes};
  }
  // All pushes of these are summed.
  void complete(Slice part, bool steps) {
    scale(gradients_->part(part), 1.0 / crew_.workers);
    if (steps) replica_->apply_gradients(step_, part);
  }

  // The same as exchange_plain() by messages of a length that only their sender knows.
  void exchange_encoded(std::size_t b, Slice bucket, Transport& lane) {
    const Slice own = common(shard_at(lane.rank(), weights_->count()), bucket);
    const Values sum = gradients_->part(own);
    const Tag pull = tag(Purpose::weights, b);
    const bool pulls = !overlaps_ || !crew_.colocated;
    const std::vector<int> workers = served_workers();

    std::vector<Landed> landed = await_pushes(b, own, lane);
    std::vector<Pending> pulling, sent;
    if (pulls)
      for_each_server(bucket, [&](int server, Slice part) {
        const Values into = landing().part(part);
        pulling.push_back(lane.recv(server, pull.with_format(into.format()), into.bytes()));
      });

    std::vector<PushMessage> messages;
    messages.reserve(crew_.servers);
    if (crew_.works() && own.count > 0) messages.push_back(encoded(*code_, sum, own.begin));
    for_each_server(bucket, [&](int server, Slice part) {
      const PushMessage& message =
          messages.emplace_back(encoded(*code_, gradients_->part(part), part.begin));
      pushed_bytes_ += message.bytes.size;
      const Tag push = tag(Purpose::gradients, b).with_format(message.tag.format);
      sent.push_back(lane.send(server, push, message.bytes));
    });

    for (Landed& push : landed) add_push(push, lane.wait(push.coming).bytes, lane);
    if (own.count > 0) {
      complete(own, pulls);
      const Values mine = weights_->part(own);
      for (std::size_t i = 0; pulls && i < workers.size(); ++i)
        sent.push_back(lane.send(workers[i], pull.with_format(mine.format()), mine.bytes()));
    }
    for (Pending& pulled : pulling) lane.wait(pulled);
    for (Pending& done : sent) lane.wait(done);
  }

  // A push that comes to this server.
  struct Landed {
    int worker;
    bool is_first;  // of the sum
    Slice part;
    Scratch values;
    std::vector<std::byte> memory;
    Pending coming;
  };
  // Where a worker's push of that part comes to; a server that works has the first itself.
  Landed landed_from(int worker, bool is_first, Slice part) const {
    return {worker, is_first && !crew_.works(), part, Scratch(*gradients_, part.count), {}, {}};
  }
  std::vector<Landed> await_pushes(std::size_t b, Slice own, Transport& lane) const {
    std::vector<Landed> all;
    if (own.count == 0) return all;
    const Values like = gradients_->part(own);
    for (const int worker : served_workers()) {
      Landed& push = all.emplace_back(landed_from(worker, all.empty(), own));
      push.coming = lane.recv(worker, tag(Purpose::gradients, b).with_format(code_->format(like)),
                              code_->landing(push.values.values(), push.memory));
    }
    return all;
  }
  // A message of so many bytes has come.
  void add_push(Landed& push, std::size_t bytes, Transport& lane) const {
    const Values values = push.values.values(), sum = gradients_->part(push.part);
    const Bytes message = code_->landing(values, push.memory).part(0, bytes);
    if (!code_->decode(message, push.part.begin, values))
      throw TransportError(TransportError::Kind::mismatch, lane.job_rank(push.worker),
                           fmt::format("worker {} sent {} bytes that are no push of {} numbers",
                                       push.worker, bytes, push.part.count));
    if (push.is_first)
      copy(sum.bytes(), values.bytes());
    else
      combine(sum, values.bytes());
  }

  // Whom this rank serves, in the order of summation.
  std::vector<int> served_workers() const {
    const int m = crew_.workers, me = crew_.rank.rank();
    std::vector<int> workers;
    for (int s = 0; s < m; ++s) {
      const int worker = crew_.works() ? (me - s + m) % m : s;
      if (worker != me) workers.push_back(worker);
    }
    return workers;
  }
  // Who serves this rank, and what: beginning with the one after it, so that not all push to the
  // same one first.
  template <class F>
  void for_each_server(Slice bucket, F&& f) const {
    if (!crew_.works()) return;
    const int me = crew_.rank.rank();
    for (int s = 1; s <= crew_.servers; ++s) {
      const int k = (me + s) % crew_.servers, server = crew_.rank_of_server(k);
      const Slice part = common(crew_.shard(k, weights_->count()), bucket);
      if (server != me && part.count > 0) f(server, part);
    }
  }

  const std::unique_ptr<PushCode> code_;
  const bool overlaps_;
  bool needs_whole_layers_ = false;
  std::optional<Values> gradients_, weights_;
  std::optional<Scratch> landing_;  // where weights are pulled to while backward runs
  // Of the step that is being taken.
  std::uint64_t step_ = 0;
  double share_ = 1;
  Replica* replica_ = nullptr;    // whose optimiser steps
  std::size_t pushed_bytes_ = 0;  // by the code
  BucketJobs jobs_;               // the last: what is under way uses all of this
};

}  // namespace

StrategyMaker parameter_server(const Options&) {
  return {.make = [](const Crew& crew) { return std::make_unique<ParameterServer>(crew); },
          .travels = Travels::pushed_gradients};
}

}  // namespace lockstep
