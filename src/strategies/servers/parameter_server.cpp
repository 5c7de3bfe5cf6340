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
// Where the run has a code for pushes (see push_code.h) a shard is one message, and a co-located
// server sums what its own message would bring too: all workers count by what they sent.
#include <algorithm>
#include <limits>

#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "strategies/average.h"
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

class ParameterServer final : public Strategy, public Statement, public Serving, public Measured {
 public:
  explicit ParameterServer(const Crew& crew)
      : Strategy(crew, {.statement = this, .serving = this, .measured = this}),
        code_(make_push_code(crew)) {}

  void begin(Replica& replica) override {
    if (crew_.works()) code_->begin(replica.gradients(), replica.parameters());
  }
  void update(Replica& replica, const Step& step) override {
    const double share = shares_of(step.samples)[crew_.rank.rank()];
    if (share != 1) scale(replica.gradients(), share);
    act(replica, step);
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

  const Figures& figures() override {
    figures_.coding = code_->coding();
    return figures_;
  }

  std::vector<Kept> memories() override { return code_->memories(); }
  std::string state() const override { return code_->state(); }
  void restore(const std::string& state) override { code_->restore(state); }

 private:
  // The shard that this rank serves; empty if it serves none.
  Slice shard_at(int rank, std::size_t count) const {
    const int k = crew_.colocated ? rank : rank - crew_.workers;
    return k >= 0 && k < crew_.servers ? crew_.shard(k, count) : Slice{};
  }

  // Pushes and pulls share the lines of co-located servers, and overlap on those of others. Where
  // the optimiser needs whole layers it steps the whole shard at once.
  std::size_t piece_bytes(const Replica& replica, Values shard) const {
    if (replica.needs_whole_layers()) return std::numeric_limits<std::size_t>::max();
    if (crew_.colocated) return segment_bytes_if_busy(shard);
    const std::size_t pieces = pieces_for(crew_.workers);
    const std::size_t bytes =
        std::max(kLeastPieceBytes, (shard.bytes().size + pieces - 1) / pieces);
    return shard.is_hollow() ? bytes : std::min(bytes, kSegmentBytes);
  }

  void act(Replica& replica, const Step& step) {
    crew_.push_codes ? exchange_encoded(replica, step) : exchange(replica, step);
  }

  // Push, sum, step and pull of one step, piece by piece: a piece of a shard is on its way back
  // while the next still arrives. A rank does the part of a worker, of a server, or both.
  void exchange(Replica& replica, const Step& step) {
    const Values gradients = replica.gradients().as(Op::mean), weights = replica.weights();
    const Slice own = shard_at(crew_.rank.rank(), weights.count());
    if (crew_.ranks() == 1) return replica.apply_gradients(step.number);

    Messages messages(crew_.rank.peers, tag_of(Purpose::gradients, step),
                      piece_bytes(replica, gradients.part(crew_.shard(0, weights.count()))));
    // A server takes a piece from one worker after the other: one that pushed far ahead of the
    // others would fill the line with what can't be summed yet.
    messages.open_at_once(gradients.is_hollow() ? 1 : crew_.colocated ? 8 : 2);
    for_each_server([&](int server, Slice part) { messages.send(server, gradients.part(part)); },
                    weights.count());
    const std::vector<int> workers = served_workers();
    std::span<const int> others = workers;
    auto first = Messages::kStart;  // a server that works has the first gradients
    if (!crew_.works()) {
      first = messages.take(workers[0], gradients.part(own));
      others = others.subspan(1);
    }
    const auto sum = messages.fold(others, gradients.part(own), crew_.workers, first);
    messages.then(sum, [&](Slice piece) {
      replica.apply_gradients(step.number, {own.begin + piece.begin, piece.count});
    });
    messages.under(tag_of(Purpose::weights, step));
    for (const int worker : workers) messages.send(worker, weights.part(own), sum);
    for_each_server([&](int server, Slice part) { messages.take(server, weights.part(part)); },
                    weights.count());
    messages.run();
  }

  // The same by messages of a length that only their sender knows.
  void exchange_encoded(Replica& replica, const Step& step) {
    const Values gradients = replica.gradients(), weights = replica.weights();
    const Slice own = shard_at(crew_.rank.rank(), weights.count());
    const Values sum = gradients.part(own);
    const Tag push = tag_of(Purpose::gradients, step), pull = tag_of(Purpose::weights, step);
    Transport& peers = crew_.rank.peers;
    const std::vector<int> workers = served_workers();

    std::vector<std::vector<std::byte>> memory(workers.size());
    std::vector<Scratch> landed;
    std::vector<Pending> coming, pulling, sent;
    for (std::size_t i = 0; own.count > 0 && i < workers.size(); ++i) {
      landed.emplace_back(sum, own.count);
      coming.push_back(peers.recv(workers[i], push.with_format(code_->format(sum)),
                                  code_->landing(landed[i].values(), memory[i])));
    }
    for_each_server(
        [&](int server, Slice part) {
          const Values into = weights.part(part);
          pulling.push_back(peers.recv(server, pull.with_format(into.format()), into.bytes()));
        },
        weights.count());

    std::vector<PushMessage> messages;
    messages.reserve(crew_.servers);
    pushed_bytes_ = 0;
    if (crew_.works() && own.count > 0) messages.push_back(encoded(*code_, sum, own.begin));
    for_each_server(
        [&](int server, Slice part) {
          const PushMessage& message =
              messages.emplace_back(encoded(*code_, gradients.part(part), part.begin));
          pushed_bytes_ += message.bytes.size;
          sent.push_back(peers.send(server, push.with_format(message.tag.format), message.bytes));
        },
        weights.count());

    for (std::size_t i = 0; i < coming.size(); ++i) {
      const std::size_t bytes = peers.wait(coming[i]).bytes;
      const Values values = landed[i].values();
      if (!code_->decode(code_->landing(values, memory[i]).part(0, bytes), own.begin, values))
        throw TransportError(TransportError::Kind::mismatch, peers.job_rank(workers[i]),
                             fmt::format("worker {} sent {} bytes that are no push of {} numbers",
                                         workers[i], bytes, own.count));
      if (i == 0 && !crew_.works())
        copy(sum.bytes(), values.bytes());
      else
        combine(sum, values.bytes());
    }
    if (own.count > 0) {
      scale(sum, 1.0 / crew_.workers);
      replica.apply_gradients(step.number, own);
      const Values mine = weights.part(own);
      for (const int worker : workers)
        sent.push_back(peers.send(worker, pull.with_format(mine.format()), mine.bytes()));
    }
    for (Pending& pulled : pulling) peers.wait(pulled);
    for (Pending& done : sent) peers.wait(done);
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
  void for_each_server(F&& f, std::size_t count) const {
    if (!crew_.works()) return;
    const int me = crew_.rank.rank();
    for (int s = 1; s <= crew_.servers; ++s) {
      const int k = (me + s) % crew_.servers, server = crew_.rank_of_server(k);
      if (server != me) f(server, crew_.shard(k, count));
    }
  }

  const std::unique_ptr<PushCode> code_;
  std::size_t pushed_bytes_ = 0;  // by the code, in the last step
};

}  // namespace

StrategyMaker parameter_server(const Options&) {
  return {.make = [](const Crew& crew) { return std::make_unique<ParameterServer>(crew); },
          .travels = Travels::pushed_gradients};
}

}  // namespace lockstep
