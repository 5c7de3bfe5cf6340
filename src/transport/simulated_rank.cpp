#include "transport/simulated_rank.h"

#include <array>
#include <deque>
#include <limits>
#include <optional>

#include "transport/faulty.h"
#include "transport/simulated_actor.h"
#include "transport/simulated_transport.h"

namespace lockstep {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr const char* kItsLock = "its lock";

// The actors of a rank, one a lane, and which of them is running.
struct Actors {
  std::array<SimulatedActor, kLanes> of;  // by lane
  std::array<SimulatedTransport*, kLanes> lanes = {};
  SimulatedActor& body() { return of[kOwnLane]; }
  SimulatedTransport& own_lane() { return *lanes[kOwnLane]; }
  // The lane of the running one. All sleep outside of Transport's calls goes through it.
  SimulatedTransport& current() {
    for (int lane = kOwnLane + 1; lane < kLanes; ++lane)
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
  ActorBackground(Actors& actors, int lane, const char* name, simgrid::s4u::Host* host)
      : actors_(actors),
        actor_(actors.of[lane]),
        lane_(*actors.lanes[lane]),
        name_(name),
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

  void drain() override { wait(posted_); }

  bool done(std::uint64_t number) override {
    if (done_ >= number) return true;
    // As with Transport::test, a loop around this must not stop the world.
    const double until = virtual_now() + SimulatedTransport::kPollSeconds;
    actors_.current().sleep_outside(until, "time to pass");
    return false;
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
  const char* const name_;
  simgrid::s4u::Host* const host_;
  std::deque<Job> jobs_;
  std::uint64_t posted_ = 0, done_ = 0;
  bool started_ = false, running_ = false, stopping_ = false;
  std::exception_ptr error_;
};

}  // namespace

struct SimulatedRank::Parts {
  SimulatedWorld& world;
  Actors actors;
  VirtualClock clock{actors};
  VirtualLock lock{actors};
  std::optional<ActorBackground> background, scoring;
  std::optional<Rank> rank;
  bool finished = false;

  Parts(SimulatedWorld& w, int r) : world(w) {
    for (int lane = 0; lane < kLanes; ++lane) {
      world.open_lane(r, actors.of[lane]);
      actors.lanes[lane] = &world.lane(r, lane);
    }
    simgrid::s4u::Host* const host = w.network.host(w.cluster.host_of(r));
    background.emplace(actors, kBackgroundLane, "background", host);
    scoring.emplace(actors, kScoringLane, "scoring", host);
    rank.emplace(Rank{actors.own_lane(), clock, *background, lock, world.cluster.seed, &*scoring});
  }

  void live(const Body& body, const std::function<void(std::exception_ptr)>& failed) {
    try {
      std::exception_ptr error;
      bool killed = false;
      try {
        body(*rank);
      } catch (const RankKilled&) {
        killed = true;
      } catch (const std::exception&) {
        error = std::current_exception();
      }
      if (killed) {
        world.die(rank->rank());
        throw Died{};
      }
      if (error) failed(error);
      background->stop();
      scoring->stop();
      world.leave(rank->rank());
    } catch (const Died&) {
    }
    finished = true;
  }
};

SimulatedRank::SimulatedRank(SimulatedWorld& world, int rank)
    : parts_(std::make_unique<Parts>(world, rank)) {}

SimulatedRank::~SimulatedRank() = default;

void SimulatedRank::start(const Body& body, std::function<void(std::exception_ptr)> failed) {
  Parts& p = *parts_;
  const int rank = p.rank->rank();
  p.actors.body().start(fmt::format("rank-{}", rank),
                        p.world.network.host(p.world.cluster.host_of(rank)),
                        [&p, &body, failed = std::move(failed)] { p.live(body, failed); });
}

bool SimulatedRank::finished() const { return parts_->finished; }

std::string SimulatedRank::plight() const {
  const auto waits_for = [&](int lane) { return parts_->actors.of[lane].waits_for(); };
  const char* const what = waits_for(kOwnLane);
  std::string plight =
      fmt::format("rank {} waits for {}", parts_->rank->rank(), what ? what : "nothing");
  if (waits_for(kBackgroundLane))
    plight += fmt::format(", its background for {}", waits_for(kBackgroundLane));
  if (waits_for(kScoringLane))
    plight += fmt::format(", its scores for {}", waits_for(kScoringLane));
  return plight;
}

}  // namespace lockstep
