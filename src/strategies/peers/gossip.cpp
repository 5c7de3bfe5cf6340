// GoSGD: workers send their weights to each other at random, one way, and nobody waits (Blot et
// al.: Gossip training for deep learning, 2016). Each worker has weights x and a mass a; all masses
// add up to one, those under way among them. In every iteration it
//
//   1. empties its inbox: x = (a x + a_s x_s)/(a + a_s), a = a + a_s for every (x_s, a_s) there;
//   2. takes its own step;
//   3. with probability p: halves a, and sends (x, a) to another worker that still trains.
//
// Here an iteration begins behind the gradient, so the inbox is emptied last: right before the next
// gradient is taken. Messages travel beside the computation (see gossip_mail.h).
//
// So the mean of the workers by their masses moves only by their steps. A send is 4N + 8 bytes, and
// p of them are expected in an iteration. Where the run has a code for messages (see push_code.h) a
// send is that of its message and 8; masses stay exact, and the mean moves besides by what messages
// are off from the weights, each by its mass. Where eight messages wait for one peer, the next is
// merged with the last of them; that is counted, and so is a send that finds nobody who still
// trains. What a worker that is gone had, and what was on its way to it, is lost, mass and all.
//
// In a step without samples a worker neither steps nor sends. Others may choose it all the same,
// for nobody knows in which step it is; they leave out who has no samples in the whole run. A
// worker brings its first mass with its first samples: until then its weights, which are the
// initial ones, are part of no mean.
#include <algorithm>
#include <memory>
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/peers/gossip_mail.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

// The mass of all, in whole units: a half that is rounded down and the rest are exactly the whole.
// Where a mass is down to one unit its weights are below the rounding of everybody else's.
constexpr std::uint64_t kWhole = std::uint64_t{1} << 47;

class Gossip final : public Strategy, public Apart, public Measured, public ExchangeProofs {
 public:
  Gossip(const Crew& crew, double p)
      : Strategy(crew, {.apart = this, .measured = this, .proofs = this}),
        p_(p),
        mass_(first_mass()),
        random_(crew.rank.random(purpose_of("gossip"))) {}

  ~Gossip() override {
    if (!mail_) return;
    mail_->abandon();
    crew_.rank.background.ring();
  }

  void begin(Replica& replica) override {
    book_.starts_with_mass(mass(), crew_.workers);
    mail_ =
        std::make_shared<GossipMail>(crew_.rank, replica.weights(), make_push_code(crew_), proof_);
  }

  void go() override {
    book_.has_mass(mass());
    mail_->go();
    job_ = crew_.rank.background.post([mail = mail_](Transport& lane) { mail->work(lane); });
  }

  void update(Replica& replica, const Step& step) override {
    if (mail_->failed()) crew_.rank.background.wait(job_);
    step_ = step.number;
    if (has_samples(step)) {
      take_part(true);
      replica.apply_gradients(step.number, own_share(step));
      if (random_.uniform() < p_) send_half(replica.weights());
    } else if (step.number == 0) {
      take_part(false);
    }
    empty_inbox(replica.weights());
    book_.has_mass(mass());
    figures_.hidden_s = mail_->exchanging_s();
    figures_.coding = mail_->coding();
  }

  void rest(Replica& replica) override {
    mail_->rest_when_sent();
    crew_.rank.background.ring();
    crew_.rank.background.wait(job_);
    empty_inbox(replica.weights());
    book_.has_mass(mass());
  }

  double mass() const override { return part_of_all(mass_); }

  std::string state() const override {
    const Sends& sends = figures_.sends;
    return with_state(fmt::format("{} {:d} {} {} {}", mass_, takes_part_, sends.merged,
                                  sends.withheld, random_.state()),
                      mail_ ? mail_->code().state() : "");
  }
  void restore(const std::string& state) override {
    std::istringstream in(state);
    std::string random;
    Sends& sends = figures_.sends;
    if (!(in >> mass_ >> takes_part_ >> sends.merged >> sends.withheld >> std::ws) ||
        !std::getline(in, random) || mass_ > kWhole)
      throw UsageError("the saved state of gossip is damaged");
    random_.restore(random);
    if (mail_) mail_->code().restore(state_behind(in));
    book_.forget();
  }

 private:
  std::uint64_t first_mass() const { return chunk(kWhole, crew_.workers, crew_.rank.rank()).count; }
  // From now on, or not yet: its first mass comes and goes with that.
  void take_part(bool does) {
    if (does == takes_part_) return;
    takes_part_ = does;
    const double had = mass();
    mass_ = does ? mass_ + first_mass() : mass_ - first_mass();
    book_.mass_came(mass() - had, crew_.rank.rank());
  }

  static double part_of_all(std::uint64_t mass) {
    return static_cast<double>(mass) / static_cast<double>(kWhole);
  }

  void empty_inbox(Values x) {
    if (GossipMail::Parcel* parcel = mail_->take()) mix(x, *parcel);
  }

  // As x + share (x_s - x): who agrees goes on agreeing, to the bit.
  void mix(Values x, GossipMail::Parcel& parcel) {
    const double a = static_cast<double>(mass_), a_s = static_cast<double>(parcel.mass);
    const double share = a_s / (a + a_s);
    const Values x_s = parcel.x.values();
    add_scaled(x_s, -1, x);
    add_scaled(x, share, x_s);
    mass_ += parcel.mass;
    std::vector<Massed> came;
    for (const auto& [from, head] : parcel.parts) {
      came.push_back({from, part_of_all(head.mass()), head.proof});
      figures_.contributions.add(from, static_cast<double>(head.mass()) / (a + a_s),
                                 head.steps_from(step_));
    }
    book_.arrived();
    book_.mixes(came);
  }

  // Nothing is sent where nobody else trains, or where half is nothing.
  void send_half(Values x) {
    std::vector<int> others = mail_->others();
    std::erase_if(others, [&](int w) { return std::ranges::binary_search(crew_.idle, w); });
    const std::uint64_t half = mass_ / 2;
    if (others.empty() || half == 0) {
      ++figures_.sends.withheld;
      return;
    }
    mass_ -= half;
    const GossipHead head = GossipHead::of(half, step_, proof_.of(x));
    const int to = others[random_.below(others.size())];
    if (!mail_->put(to, head, x)) ++figures_.sends.merged;
    book_.mass_left(part_of_all(head.mass()), mass(), to);
    crew_.rank.background.ring();
  }

  const double p_;
  std::uint64_t mass_;
  bool takes_part_ = true;  // its first mass is in
  Rng random_;
  std::uint64_t step_ = 0;
  std::shared_ptr<GossipMail> mail_;
  std::uint64_t job_ = 0;
};

}  // namespace

StrategyMaker gossip(const Options& options) {
  const double p = options.number("p");
  if (!(p >= 0 && p <= 1))
    throw UsageError(fmt::format("p of 'gossip' is {}: a probability, from 0 to 1", p));
  return {.make = [=](const Crew& crew) { return std::make_unique<Gossip>(crew, p); },
          .travels = Travels::sent_weights};
}

}  // namespace lockstep
