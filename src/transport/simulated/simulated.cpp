#include "transport/simulated/simulated.h"

#include <cmath>
#include <deque>
#include <limits>
#include <simgrid/s4u/Engine.hpp>

#include "transport/decorators/faulty.h"
#include "transport/simulated/actor.h"
#include "transport/simulated/transport.h"

namespace lockstep {
namespace {

void require(bool ok, const char* what, double given, const char* right) {
  if (!ok)
    throw UsageError(fmt::format("simulated cluster: {} is {}, must be {}", what, given, right));
}

void require_positive(double value, const char* what) {
  require(std::isfinite(value) && value > 0, what, value, "above 0");
}

void require_time(double value, const char* what) {
  require(std::isfinite(value) && value >= 0, what, value, "0 s or more");
}

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr const char* kItsLock = "its lock";

// The actors of a rank, one a lane, and which of them is running.
struct Actors {
  explicit Actors(int count) : of(count), lanes(count) {}
  std::vector<SimulatedActor> of;  // by lane
  std::vector<SimulatedTransport*> lanes;
  SimulatedActor& body() { return of[Lanes::kOwn]; }
  SimulatedTransport& own_lane() { return *lanes[Lanes::kOwn]; }
  // The lane of the running one. All sleep outside of Transport's calls goes through it.
  SimulatedTransport& current() {
    for (std::size_t lane = Lanes::kOwn + 1; lane < of.size(); ++lane)
      if (of[lane].is_current()) return *lanes[lane];
    return own_lane();
  }
};

class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Actors& actors) : actors_(actors) {}
  double now() const override { return virtual_now(); }
  void charge(double seconds) override {
    const double until = now() + seconds;
    while (now() < until) actors_.current().sleep_outside(until, "its computation");
  }

 private:
  Actors& actors_;
};

class VirtualLock final : public Lock {
 public:
  explicit VirtualLock(Actors& actors) : actors_(actors) {}
  void lock() override {
    while (held_) actors_.current().sleep_outside(kForever, kItsLock);
    held_ = true;
  }
  void unlock() override {
    held_ = false;
    for (SimulatedActor& actor : actors_.of)
      if (actor.waits_for() == kItsLock) actor.wake();
  }

 private:
  Actors& actors_;
  bool held_ = false;
};

class ActorBackground final : public Background {
 public:
  // `name`: of its actor, for SimGrid.
  ActorBackground(Actors& actors, int lane, std::string name, simgrid::s4u::Host* host)
      : actors_(actors),
        actor_(actors.of[lane]),
        lane_(*actors.lanes[lane]),
        name_(std::move(name)),
        host_(host) {}

  std::uint64_t post(Job job) override {
    jobs_.push_back(std::move(job));
    if (!started_)
      actor_.start(fmt::format("{}-{}", name_, lane_.rank()), host_, [this] { work(); });
    started_ = true;
    actor_.wake();
    return ++posted_;
  }

  void wait(std::uint64_t number) override {
    while (done_ < number) actors_.own_lane().sleep_outside(kForever, "its background job");
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void ring() override { lane_.ring(); }

  // Drops the jobs and waits for the one that runs.
  void stop() {
    stopping_ = true;
    jobs_.clear();
    actor_.wake();
    while (running_) actors_.own_lane().sleep_outside(kForever, "its background job");
  }

 private:
  void work() {
    try {
      lane_.begin();
      for (;;) {
        while (jobs_.empty() && !stopping_) lane_.sleep_outside(kForever, "jobs");
        if (stopping_) return;
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        running_ = true;
        if (!error_) run(job);  // after a failure the rest is dropped until wait() has told of it
        running_ = false;
        ++done_;
        actors_.body().wake();
      }
    } catch (const Died&) {
    }
  }

  void run(Job& job) {
    try {
      job(lane_);
    } catch (const std::exception&) {
      error_ = std::current_exception();
    }
  }

  Actors& actors_;
  SimulatedActor& actor_;
  SimulatedTransport& lane_;
  const std::string name_;
  simgrid::s4u::Host* const host_;
  std::deque<Job> jobs_;
  std::uint64_t posted_ = 0, done_ = 0;
  bool started_ = false, running_ = false, stopping_ = false;
  std::exception_ptr error_;
};

// A rank: an actor for its body and for the jobs of each lane, virtual time. Outlives the
// simulation.
class SimulatedRank {
 public:
  // Opens the rank's lanes.
  SimulatedRank(SimulatedWorld& world, int rank)
      : world_(world),
        actors_(world.cluster.lanes.count()),
        host_(world.network.host(world.cluster.host_of(rank))),
        rank_{open_lanes(rank),   clock_,        jobs_.front(),  lock_,
              world.cluster.seed, &jobs_.back(), further_lanes()} {}

  // Before the simulation runs. When the body has returned or thrown (`failed` is then told at
  // once), the rank drops its background jobs, waits for the one that runs, and leaves.
  void start(const Body& body, std::function<void(std::exception_ptr)> failed) {
    actors_.body().start(fmt::format("rank-{}", rank_.rank()), host_,
                         [this, &body, failed = std::move(failed)] { live(body, failed); });
  }

  // Has it left or died?
  bool finished() const { return finished_; }

  // "rank 3 waits for messages", for a simulation that can't go on.
  std::string plight() const {
    const auto waits_for = [&](int lane) { return actors_.of[lane].waits_for(); };
    const char* const what = waits_for(Lanes::kOwn);
    std::string plight = fmt::format("rank {} waits for {}", rank_.rank(), what ? what : "nothing");
    for (int lane = Lanes::kOwn + 1; lane < lanes().count(); ++lane)
      if (waits_for(lane)) plight += fmt::format(", its {} for {}", name_of(lane), waits_for(lane));
    return plight;
  }

 private:
  const Lanes& lanes() const { return world_.cluster.lanes; }
  std::string name_of(int lane) const {
    if (lane == lanes().scoring()) return "scores";
    const int number = lane - Lanes::kFirstBackground;
    return number == 0 ? "background" : fmt::format("background-{}", number);
  }

  // Returns its own.
  SimulatedTransport& open_lanes(int rank) {
    for (int lane = 0; lane < lanes().count(); ++lane) {
      world_.open_lane(rank, actors_.of[lane]);
      actors_.lanes[lane] = &world_.lane(rank, lane);
      if (lane != Lanes::kOwn) jobs_.emplace_back(actors_, lane, name_of(lane), host_);
    }
    return actors_.own_lane();
  }

  std::span<Background* const> further_lanes() {
    for (int number = 1; number < lanes().background; ++number) further_.push_back(&jobs_[number]);
    return further_;
  }

  void live(const Body& body, const std::function<void(std::exception_ptr)>& failed) {
    try {
      std::exception_ptr error;
      bool killed = false;
      try {
        body(rank_);
      } catch (const RankKilled&) {
        killed = true;
      } catch (const std::exception&) {
        error = std::current_exception();
      }
      if (killed) {
        world_.die(rank_.rank());
        throw Died{};
      }
      if (error) failed(error);
      for (ActorBackground& lane : jobs_) lane.stop();
      world_.leave(rank_.rank());
    } catch (const Died&) {
    }
    finished_ = true;
  }

  SimulatedWorld& world_;
  Actors actors_;
  simgrid::s4u::Host* const host_;
  VirtualClock clock_{actors_};
  VirtualLock lock_{actors_};
  std::deque<ActorBackground> jobs_;  // of all lanes but the first
  std::vector<Background*> further_;
  Rank rank_;
  bool finished_ = false;
};

}  // namespace

void check(const SimulatedCluster& c) {
  require(c.ranks >= 1, "ranks", c.ranks, "1 or more");
  require(c.ranks_per_host >= 1, "ranks per host", c.ranks_per_host, "1 or more");
  require(c.hosts_per_rack >= 0, "hosts per rack", c.hosts_per_rack, "0 (a star) or more");
  require_positive(c.bandwidth_bytes_per_s, "bandwidth");
  require_positive(c.local_bandwidth_bytes_per_s, "local bandwidth");
  require_positive(c.oversubscription, "oversubscription");
  require_time(c.latency_s, "latency");
  require_time(c.local_latency_s, "local latency");
  require(c.patience_s > 0, "patience", c.patience_s, "above 0");
  c.lanes.check();
  for (const auto& death : c.deaths) {
    require(death.rank >= 0 && death.rank < c.ranks, "the rank to die", death.rank,
            "one of the ranks");
    require_time(death.at_s, "the time of a death");
  }
}

void run_simulated(const SimulatedCluster& cluster, const Body& body) {
  check(cluster);
  SimulatedWorld world(cluster);
  std::exception_ptr first;
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (int r = 0; r < cluster.ranks; ++r)
    ranks.push_back(std::make_unique<SimulatedRank>(world, r));
  for (auto& rank : ranks)
    rank->start(body, [&first](std::exception_ptr error) {
      if (!first) first = std::move(error);
    });
  for (const auto& death : cluster.deaths)
    at_virtual_time(death.at_s, [&world, rank = death.rank] { world.die(rank); });

  std::string stuck;  // asked for now: after this SimGrid unwinds all actors and returns
  simgrid::s4u::Engine::on_deadlock_cb([&] {
    for (const auto& rank : ranks)
      if (!rank->finished()) stuck += (stuck.empty() ? "" : "; ") + rank->plight();
  });
  world.network.run();
  if (first) std::rethrow_exception(first);
  for (const auto& rank : ranks)
    if (!rank->finished()) throw InternalError("the simulation can't go on: " + stuck);
}

}  // namespace lockstep
