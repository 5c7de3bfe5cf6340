// GoSGD: workers send their weights to each other at random, one way, and nobody waits (Blot et
// al.: Gossip training for deep learning, 2016). Each worker has weights x and a mass a; all masses
// add up to one, those under way among them. In every iteration it
//
//   1. empties its inbox: x = (a x + a_s x_s)/(a + a_s), a = a + a_s for every (x_s, a_s) there;
//   2. takes its own step;
//   3. with probability p: halves a, and sends (x, a) to another worker.
//
// So the mean of the workers by their masses moves only by their steps. A send is 4N + 8 bytes, and
// p of them are expected in an iteration. What a worker that is gone had, and what was on its way
// to it, is lost, mass and all.
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/gossip_mail.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

// The mass of all, in whole units: a half that is rounded down and the rest are exactly the whole.
// Where a mass is down to one unit its weights are below the rounding of everybody else's.
constexpr std::uint64_t kWhole = std::uint64_t{1} << 47;

class Gossip final : public Strategy {
 public:
  Gossip(const Crew& crew, double p)
      : Strategy(crew),
        p_(p),
        mass_(chunk(kWhole, crew.workers, crew.rank.rank()).count),
        random_(crew.rank.random(purpose_of("gossip"))) {}

  void begin(Replica& replica) override {
    book_.has_mass(mass());
    mail_.emplace(crew_.rank, replica.weights(), proof_.on());
  }

  void update(Replica& replica, const Step& step) override {
    step_ = step.number;
    const Values x = replica.weights();
    mail_->take_what_is_here(into(x));
    replica.apply_gradients(step.number);
    if (random_.uniform() < p_) send_half(x);
    book_.has_mass(mass());
  }

  void rest(Replica& replica) override {
    mail_->rest(into(replica.weights()));
    book_.has_mass(mass());
  }

  double mass() const override { return part_of_all(mass_); }

  int own_steps(const Step&) const override { return 1; }
  std::vector<Flow> flows(const Step&, int, std::size_t) const override { return {}; }
  std::uint64_t bytes_sent(const Step&, int, std::size_t) const override { return 0; }

  std::string state() const override { return fmt::format("{} {}", mass_, random_.state()); }
  void restore(const std::string& state) override {
    std::istringstream in(state);
    std::string random;
    if (!(in >> mass_ >> std::ws) || !std::getline(in, random) || mass_ > kWhole)
      throw UsageError("the saved state of gossip is damaged");
    random_.restore(random);
  }

 private:
  static double part_of_all(std::uint64_t mass) {
    return static_cast<double>(mass) / static_cast<double>(kWhole);
  }

  GossipMail::Take into(Values x) {
    return [this, x](int from, const GossipHead& head, Values x_s) { mix(x, from, head, x_s); };
  }

  // As x + share (x_s - x): who agrees goes on agreeing, to the bit.
  void mix(Values x, int from, const GossipHead& head, Values x_s) {
    const double a = static_cast<double>(mass_), a_s = static_cast<double>(head.mass());
    const double share = a_s / (a + a_s);
    const Projection mine = proof_.of(x);
    add_scaled(x_s, -1, x);
    add_scaled(x, share, x_s);
    proof_.expect("weights", x, {{1 - share, mine}, {share, head.proof}});
    book_.arrived();
    book_.mixes(share, head.proof);
    book_.mass_came(part_of_all(head.mass()));
    mass_ += head.mass();
    contributions_.add(from, share, head.steps_from(step_));
  }

  // Nothing is sent where the last message has not left yet, or where half is nothing.
  void send_half(Values x) {
    const std::vector<int> others = mail_->others();
    if (others.empty()) return;
    const int to = others[random_.below(others.size())];
    const std::uint64_t half = mass_ / 2;
    if (half == 0 || !mail_->is_free(to)) return;
    mass_ -= half;
    const GossipHead head = GossipHead::of(half, step_, proof_.of(x));
    mail_->send(to, head, x);
    book_.mass_left(part_of_all(head.mass()), mass());
  }

  const double p_;
  std::uint64_t mass_;
  Rng random_;
  std::uint64_t step_ = 0;
  std::optional<GossipMail> mail_;
};

}  // namespace

StrategyMaker gossip(const Options& options) {
  const double p = options.number("p");
  if (!(p >= 0 && p <= 1))
    throw UsageError(fmt::format("p of 'gossip' is {}: a probability, from 0 to 1", p));
  return [=](const Crew& crew) { return std::make_unique<Gossip>(crew, p); };
}

}  // namespace lockstep
