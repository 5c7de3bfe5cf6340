#include "transport/decorators/conditions.h"

#include "core/options.h"

namespace lockstep {

Conditions conditions_from(std::span<const std::string> faults, const std::string& shape,
                           int ranks) {
  Conditions conditions;
  for (const std::string& text : faults) {
    const Fault fault = parse_fault(text);
    if (fault.rank >= ranks)
      throw UsageError(fmt::format("--fault {}: ranks are 0 to {}", text, ranks - 1));
    conditions.faults.push_back(fault);
  }
  if (shape.empty()) return conditions;
  constexpr std::string_view kKeys[] = {"bandwidth", "latency"};
  const Options options("shape:" + shape, kKeys);
  Link& link = conditions.link.emplace();
  if (options.has("bandwidth")) link.bytes_per_second = options.bytes_per_second("bandwidth");
  link.latency_seconds = options.seconds("latency", 0);
  return conditions;
}

// All lanes of a rank are made with this.
struct Conditioned::Setting {
  std::vector<Fault> faults;
  std::shared_ptr<Roads> roads;  // none: the network as it is
  std::uint64_t seed;
  Sleep sleep;
  Faulty::Die die;

  bool changes_nothing() const { return faults.empty() && !roads; }
};

class Conditioned::Lane {
 public:
  Lane(Transport& below, const Setting& s) : top_(&below) {
    if (s.roads) top_ = &shaped_.emplace(*top_, s.roads, s.sleep);
    if (!s.faults.empty()) top_ = &faulty_.emplace(*top_, s.faults, s.seed, s.sleep, s.die);
  }
  Lane(const Lane&) = delete;
  Transport& top() { return *top_; }
  void settle() {
    if (shaped_) shaped_->settle();
  }

 private:
  std::optional<Shaped> shaped_;
  std::optional<Faulty> faulty_;
  Transport* top_;
};

// The lane is made with the first job and kept for the next. Jobs own it too, because a job may
// outlive the training that posted it.
class Conditioned::LaneOfJobs final : public Background {
 public:
  LaneOfJobs(Background& inner, const Setting& setting)
      : inner_(inner), kept_(std::make_shared<Kept>(setting)) {}

  std::uint64_t post(Job job) override {
    return inner_.post(
        [kept = kept_, job = std::move(job)](Transport& below) { kept->run(below, job); });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  struct Kept {
    explicit Kept(const Setting& s) : setting(s) {}
    void run(Transport& below, const Job& job) {
      if (!lane) lane.emplace(below, setting);
      std::exception_ptr failure;
      try {
        job(lane->top());
      } catch (const std::exception&) {
        failure = std::current_exception();
      }
      lane->settle();  // its last owner destroys the lane, on any thread
      if (failure) std::rethrow_exception(failure);
    }
    const Setting setting;
    std::optional<Lane> lane;
  };

  Background& inner_;
  const std::shared_ptr<Kept> kept_;
};

Conditioned::Conditioned(Rank& rank, const Conditions& conditions, const Sleep& sleep,
                         Faulty::Die die)
    : Conditioned(rank, Setting{conditions.faults,
                                conditions.link ? std::make_shared<Roads>(std::vector<Link>(
                                                      rank.size(), *conditions.link))
                                                : nullptr,
                                rank.seed, sleep, std::move(die)}) {}

Conditioned::Conditioned(Rank& rank, const Setting& setting)
    : lane_(std::make_unique<Lane>(rank.peers, setting)),
      background_(setting.changes_nothing()
                      ? nullptr
                      : std::make_unique<LaneOfJobs>(rank.background, setting)),
      scoring_(setting.changes_nothing() || !rank.scoring
                   ? nullptr
                   : std::make_unique<LaneOfJobs>(*rank.scoring, setting)),
      rank_{lane_->top(), rank.clock, background_ ? *background_ : rank.background,
            rank.lock,    rank.seed,  scoring_ ? scoring_.get() : rank.scoring} {}

Conditioned::~Conditioned() = default;

}  // namespace lockstep
