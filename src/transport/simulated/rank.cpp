#include "transport/simulated/rank.h"

#include <deque>
#include <limits>
#include <optional>

#include "transport/decorators/faulty.h"
#include "transport/simulated/actor.h"
#include "transport/simulated/transport.h"

namespace lockstep {
namespace {

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

}  // namespace

struct SimulatedRank::Parts {
  SimulatedWorld& world;
  Actors actors;
  VirtualClock clock{actors};
  VirtualLock lock{actors};
  std::deque<ActorBackground> jobs;  // of all lanes but the first
  std::vector<Background*> further;
  std::optional<Rank> rank;
  bool finished = false;

  Parts(SimulatedWorld& w, int r) : world(w), actors(w.cluster.lanes.count()) {
    simgrid::s4u::Host* const host = w.network.host(w.cluster.host_of(r));
    for (int lane = 0; lane < lanes().count(); ++lane) {
      world.open_lane(r, actors.of[lane]);
      actors.lanes[lane] = &world.lane(r, lane);
      if (lane != Lanes::kOwn) jobs.emplace_back(actors, lane, name_of(lane), host);
    }
    for (int number = 1; number < lanes().background; ++number) further.push_back(&jobs[number]);
    rank.emplace(Rank{actors.own_lane(), clock, jobs.front(), lock, world.cluster.seed,
                      &jobs.back(), further});
  }

  const Lanes& lanes() const { return world.cluster.lanes; }
  std::string name_of(int lane) const {
    if (lane == lanes().scoring()) return "scores";
    const int number = lane - Lanes::kFirstBackground;
    return number == 0 ? "background" : fmt::format("background-{}", number);
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
      for (ActorBackground& lane : jobs) lane.stop();
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
  const char* const what = waits_for(Lanes::kOwn);
  std::string plight =
      fmt::format("rank {} waits for {}", parts_->rank->rank(), what ? what : "nothing");
  for (int lane = Lanes::kOwn + 1; lane < parts_->lanes().count(); ++lane)
    if (waits_for(lane))
      plight += fmt::format(", its {} for {}", parts_->name_of(lane), waits_for(lane));
  return plight;
}

}  // namespace lockstep
