// AD-PSGD: workers average their weights in pairs, beside the computation, and nobody waits for all
// (Lian et al.: Asynchronous decentralized parallel stochastic gradient descent, 2018). A worker
// repeats: compute a gradient g at a snapshot of x_i, meanwhile average with a random neighbour j,
// x_i, x_j = (x_i + x_j)/2, and take the step x_i -= eta g.
//
// Workers are the two sides of a bipartite graph, so that none waits for one that waits for it:
// those of even rank are active and choose, once an iteration, one of odd rank; the passive ones
// only answer. An average is applied as a difference on both sides, x_i += (x_j - x_i)/2, which
// keeps the steps that were taken in between: the sum over all workers changes by steps alone.
//
// N elements go each way in an exchange, one an iteration of an active worker, with a note ahead of
// them that says whose they are. Momentum stays each worker's own. Who is gone is not chosen again,
// and not waited for. In a step without samples a worker neither steps nor chooses. Others may
// choose it all the same, for nobody knows in which step it is; they leave out who has no samples
// in the whole run. The weights of a worker that has had neither samples nor an exchange are the
// initial ones, and no part of the model. An exchange that is due and finds nobody to choose is
// counted.
#include <algorithm>
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/peers/ad_psgd_exchange.h"
#include "strategies/registry.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kRests = channels::kAdPsgdRests;

class AdPsgd final : public Strategy, public Apart, public Measured, public ExchangeProofs {
 public:
  explicit AdPsgd(const Crew& crew)
      : Strategy(crew, {.apart = this, .measured = this, .proofs = this}),
        random_(crew.rank.random(purpose_of("ad-psgd"))) {}
  ~AdPsgd() override {
    if (exchange_) exchange_->abandon();
  }

  void begin(Replica& replica) override {
    exchange_ = std::make_shared<AdPsgdExchange>(crew_.rank, replica.weights(), proof_);
  }

  void go() override {
    if (is_active()) return;
    job_ = post([actives = workers(0)](AdPsgdExchange& exchange, Transport& lane) {
      exchange.answer(lane, actives);
    });
  }

  void update(Replica& replica, const Step& step) override {
    if (is_active()) finish_exchange();
    if (exchange_->failed()) crew_.rank.background.wait(job_);
    if (step.number == 0) takes_part_ = has_samples(step);
    takes_part_ |= has_samples(step);
    if (!has_samples(step)) return go_on_with_x(replica);
    take_step(replica, step);
    if (is_active()) start_exchange();
  }

  void rest(Replica& replica) override {
    if (is_active()) {
      finish_exchange();
      job_ = post([passives = workers(1)](AdPsgdExchange& exchange, Transport& lane) {
        exchange.say_rest(lane, passives);
      });
    }
    crew_.rank.background.wait(job_);
    job_ = 0;
    meet_while_they_live(crew_.rank.peers, kRests, crew_.workers);
    go_on_with_x(replica);
  }

  double mass() const override { return takes_part_ ? 1 : 0; }
  const Figures& figures() override {
    figures_.hidden_s = exchanging_s_ - figures_.waited_s;
    return figures_;
  }

  std::vector<Kept> memories() override {
    if (!exchange_) return {};
    return {{"x", exchange_->x(), true}};
  }
  std::string state() const override {
    return fmt::format("{:d} {} {}", takes_part_, figures_.sends.withheld, random_.state());
  }
  void restore(const std::string& state) override {
    std::istringstream in(state);
    std::string random;
    if (!(in >> takes_part_ >> figures_.sends.withheld >> std::ws) || !std::getline(in, random))
      throw UsageError("the saved state of ad-psgd is damaged");
    random_.restore(random);
  }

 private:
  bool is_active() const { return crew_.rank.rank() % 2 == 0; }
  // The active ones, or the passive ones.
  std::vector<int> workers(int first) const {
    std::vector<int> side;
    for (int w = first; w < crew_.workers; w += 2) side.push_back(w);
    return side;
  }

  // x += stepped - snapshot; snapshot = x. The replica's weights are the snapshot.
  void take_step(Replica& replica, const Step& step) {
    const std::lock_guard hold(crew_.rank.lock);
    const Values snapshot = replica.weights(), x = exchange_->x();
    add_scaled(x, -1, snapshot);  // what exchanges brought: nothing, exactly, where there were none
    replica.apply_gradients(step.number, own_share(step));
    add_scaled(x, 1, snapshot);
    copy(snapshot.bytes(), x.bytes());
    book_brought();
    exchange_->stepped();
    take_figures();
  }
  // Without a step of its own.
  void go_on_with_x(Replica& replica) {
    const std::lock_guard hold(crew_.rank.lock);
    copy(replica.weights().bytes(), exchange_->x().bytes());
    book_brought();
    take_figures();
  }
  // x is the replica's weights and what exchanges have brought since those were taken.
  void book_brought() {
    book_.arrived();
    book_.adds(exchange_->take_brought());
  }
  void take_figures() {
    figures_.contributions = exchange_->contributions();
    takes_part_ |= figures_.contributions.count > 0;
    exchanging_s_ = exchange_->exchanging_s();
  }

  void start_exchange() {
    const std::vector<int> passives = passives_that_train();
    if (passives.empty()) {
      ++figures_.sends.withheld;
      return;
    }
    const int passive = passives[random_.below(passives.size())];
    job_ = post(
        [passive](AdPsgdExchange& exchange, Transport& lane) { exchange.meet(lane, passive); });
  }
  void finish_exchange() {
    if (job_ == 0) return;
    const double start = crew_.rank.clock.now();
    crew_.rank.background.wait(job_);
    figures_.waited_s += crew_.rank.clock.now() - start;
    job_ = 0;
  }

  template <class Job>
  std::uint64_t post(Job job) {
    return crew_.rank.background.post(
        [exchange = exchange_, job](Transport& lane) { job(*exchange, lane); });
  }

  // Those that live, and have samples at all.
  std::vector<int> passives_that_train() {
    const std::vector<int> dead = crew_.rank.peers.dead_peers();
    const std::lock_guard hold(crew_.rank.lock);
    std::vector<int> passives = workers(1);
    std::erase_if(passives, [&](int w) {
      return exchange_->is_gone(w) || std::ranges::binary_search(crew_.idle, w) ||
             std::ranges::find(dead, w) != dead.end();
    });
    return passives;
  }

  Rng random_;
  bool takes_part_ = true;  // its weights count in the model
  std::shared_ptr<AdPsgdExchange> exchange_;
  std::uint64_t job_ = 0;  // the one that runs; 0: none
  double exchanging_s_ = 0;
};

}  // namespace

StrategyMaker ad_psgd(const Options&) {
  return {[](const Crew& crew) { return std::make_unique<AdPsgd>(crew); }};
}

}  // namespace lockstep
