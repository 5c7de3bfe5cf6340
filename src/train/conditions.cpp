#include "train/conditions.h"

#include "core/options.h"

namespace lockstep {
namespace {

Transport& last_of(Rank& rank, const std::unique_ptr<Transport>& shaped,
                   const std::unique_ptr<Transport>& faulty) {
  if (faulty) return *faulty;
  return shaped ? *shaped : rank.peers;
}

}  // namespace

Conditions conditions_from(const TrainConfig& config) {
  Conditions conditions;
  for (const std::string& text : config.faults) {
    const Fault fault = parse_fault(text);
    if (fault.rank >= config.ranks())
      throw UsageError(fmt::format("--fault {}: ranks are 0 to {}", text, config.ranks() - 1));
    conditions.faults.push_back(fault);
  }
  if (config.shape.empty()) return conditions;
  constexpr std::string_view kKeys[] = {"bandwidth", "latency"};
  const Options options("shape:" + config.shape, kKeys);
  Link& link = conditions.link.emplace();
  if (options.has("bandwidth")) link.bytes_per_second = options.bytes_per_second("bandwidth");
  link.latency_seconds = options.seconds("latency", 0);
  return conditions;
}

Conditioned::Conditioned(Rank& rank, const Conditions& conditions, const Sleep& sleep,
                         Faulty::Die die)
    : shaped_(conditions.link
                  ? std::make_unique<Shaped>(
                        rank.peers, std::vector<Link>(rank.size(), *conditions.link), sleep)
                  : nullptr),
      faulty_(!conditions.faults.empty()
                  ? std::make_unique<Faulty>(shaped_ ? *shaped_ : rank.peers, conditions.faults,
                                             rank.seed, sleep, std::move(die))
                  : nullptr),
      rank_{last_of(rank, shaped_, faulty_), rank.clock, rank.background, rank.lock, rank.seed} {}

}  // namespace lockstep
