#include "transport/simulated_rank.h"

#include <deque>
#include <limits>

#include "transport/faulty.h"
#include "transport/simulated_actor.h"
#include "transport/simulated_transport.h"

namespace lockstep {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// The two actors of a rank, and which of them is running.
struct Actors {
  SimulatedActor body, background;
  SimulatedTransport *own_lane = nullptr, *background_lane = nullptr;
  // The lane of the running one. All sleep outside of Transport's calls goes through it.
  SimulatedTransport& current() { return background.is_current() ? *background_lane : *own_lane; }
  void wake_both() {
    body.wake();
    background.wake();
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
    while (held_) actors_.current().sleep_outside(kForever, "its lock");
    held_ = true;
  }
  void unlock() override {
    held_ = false;
    actors_.wake_both();
  }

 private:
  Actors& actors_;
  bool held_ = false;
};

class ActorBackground final : public Background {
 public:
  ActorBackground(Actors& actors, SimulatedTransport& lane, simgrid::s4u::Host* host)
      : actors_(actors), lane_(lane), host_(host) {}

  std::uint64_t post(Job job) override {
    jobs_.push_back(std::move(job));
    if (!started_)
      actors_.background.start(fmt::format("background-{}", lane_.rank()), host_,
                               [this] { work(); });
    started_ = true;
    actors_.background.wake();
    return ++posted_;
  }

  void wait(std::uint64_t number) override {
    while (done_ < number) actors_.own_lane->sleep_outside(kForever, "its background job");
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
    actors_.background.wake();
    while (running_) actors_.own_lane->sleep_outside(kForever, "its background job");
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
        actors_.body.wake();
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
  SimulatedTransport& lane_;
  simgrid::s4u::Host* const host_;
  std::deque<Job> jobs_;
  std::uint64_t posted_ = 0, done_ = 0;
  bool started_ = false, running_ = false, stopping_ = false;
  std::exception_ptr error_;
};

// Opens the rank's lanes; returns the background's.
SimulatedTransport& open_lanes(SimulatedWorld& world, int rank, Actors& actors) {
  world.open_lane(rank, actors.body);
  world.open_lane(rank, actors.background);
  actors.own_lane = &world.lane(rank, 0);
  actors.background_lane = &world.lane(rank, 1);
  return *actors.background_lane;
}

}  // namespace

struct SimulatedRank::Parts {
  SimulatedWorld& world;
  Actors actors;
  VirtualClock clock{actors};
  VirtualLock lock{actors};
  ActorBackground background;
  Rank rank;
  bool finished = false;

  Parts(SimulatedWorld& w, int r)
      : world(w),
        background(actors, open_lanes(w, r, actors), w.network.host(w.cluster.host_of(r))),
        rank{w.lane(r, 0), clock, background, lock, w.cluster.seed} {}

  void live(const Body& body, const std::function<void(std::exception_ptr)>& failed) {
    try {
      std::exception_ptr error;
      bool killed = false;
      try {
        body(rank);
      } catch (const RankKilled&) {
        killed = true;
      } catch (const std::exception&) {
        error = std::current_exception();
      }
      if (killed) {
        world.die(rank.rank());
        throw Died{};
      }
      if (error) failed(error);
      background.stop();
      world.leave(rank.rank());
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
  const int rank = p.rank.rank();
  p.actors.body.start(fmt::format("rank-{}", rank),
                      p.world.network.host(p.world.cluster.host_of(rank)),
                      [&p, &body, failed = std::move(failed)] { p.live(body, failed); });
}

bool SimulatedRank::finished() const { return parts_->finished; }

std::string SimulatedRank::plight() const {
  const char* what = parts_->actors.body.waits_for();
  const char* job = parts_->actors.background.waits_for();
  return fmt::format("rank {} waits for {}{}{}", parts_->rank.rank(), what ? what : "nothing",
                     job ? ", its background for " : "", job ? job : "");
}

}  // namespace lockstep
