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

// The lane of some jobs, made with the first of them and kept for the next.
class Conditioned::LaneOfJobs {
 public:
  explicit LaneOfJobs(const Setting& setting) : setting_(setting) {}

  void run(Transport& below, const Background::Job& job) {
    if (!lane_) lane_.emplace(below, setting_);
    std::exception_ptr failure;
    try {
      job(lane_->top());
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    lane_->settle();  // its last owner destroys the lane, on any thread
    if (failure) std::rethrow_exception(failure);
  }

 private:
  const Setting setting_;
  std::optional<Lane> lane_;
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
      view_(rank, {.peers = &lane_->top()},
            [&](Background& inner, int) -> std::unique_ptr<Background> {
              if (setting.changes_nothing()) return nullptr;
              // The jobs own their lane: one may outlive the training that posted it.
              return std::make_unique<WrappedJobs>(
                  inner,
                  [lane = std::make_shared<LaneOfJobs>(setting)](
                      Transport& below, const Background::Job& job) { lane->run(below, job); });
            }) {}

Conditioned::~Conditioned() = default;

}  // namespace lockstep
