// Loopback seen through each decorator and through a Group: they keep the whole contract too.
#pragma once

#include <chrono>
#include <numeric>
#include <thread>

#include "measure/metered.h"
#include "transport/decorators/decorator.h"
#include "transport/decorators/faulty.h"
#include "transport/decorators/shaped.h"
#include "transport/decorators/witnessed.h"
#include "transport/group.h"
#include "transport/loopback.h"
#include "transport/real_rank.h"
#include "worlds.h"

namespace lockstep::testing {

struct HeldTransport {
  std::unique_ptr<Transport> held;
};

// A decorator that keeps what it decorates alive: for owners of a whole stack.
template <class D>
class Owning : private HeldTransport, public D {
 public:
  template <class... Args>
  explicit Owning(std::unique_ptr<Transport> inner, Args&&... args)
      : HeldTransport{std::move(inner)}, D(*held, std::forward<Args>(args)...) {}
};

// Runs over loopback with every lane wrapped. Called on the rank's own thread.
using Wrap = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport> lane)>;
inline World loopback_through(const std::string& name, const Wrap& wrap) {
  return {name, [wrap](int ranks, const Body& body, const FabricOptions& options) {
            const auto hub = make_loopback_hub(ranks, options.lanes.count(), options.ranks_per_host,
                                               options.patience_seconds);
            const auto lanes = [&](int rank) {
              std::vector<std::unique_ptr<Transport>> opened;
              for (int lane = 0; lane < options.lanes.count(); ++lane)
                opened.push_back(wrap(open_loopback(hub, rank, lane)));
              return opened;
            };
            run_threads(ranks, lanes, body, options);
          }};
}

// The ranks in their own order: a group of all must look like what it is made of.
inline std::unique_ptr<Transport> in_a_group(std::unique_ptr<Transport> lane) {
  std::vector<int> all(lane->size());
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<Owning<Group>>(std::move(lane), all);
}

struct HeldLedger {
  Ledger ledger;
};
class SelfMetered : private HeldLedger, public Metered {
 public:
  explicit SelfMetered(Transport& inner)
      : HeldLedger{Ledger(inner.size())}, Metered(inner, ledger) {}
};
inline std::unique_ptr<Transport> metered(std::unique_ptr<Transport> lane) {
  return std::make_unique<Owning<SelfMetered>>(std::move(lane));
}

struct HeldWitness {
  RecordingWitness witness{[](ConstBytes) {}};
};
class SelfRecorded : private HeldWitness, public Witnessed {
 public:
  explicit SelfRecorded(Transport& inner) : Witnessed(inner, witness) {}
};
inline std::unique_ptr<Transport> recorded(std::unique_ptr<Transport> lane) {
  return std::make_unique<Owning<SelfRecorded>>(std::move(lane));
}

inline void sleep_thread(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}
// Some messages late, and a rank that stalls: nothing that a right program would notice.
inline std::unique_ptr<Transport> faulty(std::unique_ptr<Transport> lane) {
  const std::vector<Fault> faults{parse_fault("stall:rank=0,after=2,seconds=1ms"),
                                  parse_fault("delay:rank=0,seconds=200us,probability=0.3")};
  return std::make_unique<Owning<Faulty>>(std::move(lane), faults, 1, sleep_thread);
}
inline std::unique_ptr<Transport> shaped(std::unique_ptr<Transport> lane) {
  std::vector<Link> links(lane->size(), Link{1e9, 100e-6});
  return std::make_unique<Owning<Shaped>>(std::move(lane), links, sleep_thread);
}

inline std::vector<World> decorated_worlds() {
  return {
      loopback_through("group", in_a_group),  loopback_through("metered", metered),
      loopback_through("recorded", recorded), loopback_through("faulty", faulty),
      loopback_through("shaped", shaped),
  };
}

}  // namespace lockstep::testing
