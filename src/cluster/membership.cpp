#include "cluster/membership.h"

#include <fmt/ranges.h>

#include <chrono>
#include <limits>
#include <tuple>

#include "core/error.h"
#include "transport/real_rank.h"

namespace lockstep {

namespace {
constexpr auto kRosterPause = std::chrono::milliseconds(5);
constexpr const char* kCoordinatorLost[] = {"the coordinator was lost",
                                            "the coordinator, which rank 0 served, was lost"};

void throw_if_dead(const protocol::Roster& roster) {
  if (roster.deaths.empty()) return;
  const auto& [rank, reason] = std::tie(roster.deaths[0].rank, roster.deaths[0].reason);
  throw TransportError(TransportError::Kind::dead, rank,
                       fmt::format("rank {} died before all ranks were ready: {}", rank, reason));
}

}  // namespace

Membership::Membership(const Start& start, double seconds)
    : rank_(start.rank),
      size_(start.size),
      served_by_rank_0_(start.launcher_pid == 0),
      time_(seconds),
      control_(start, time_) {}

Membership::~Membership() { stop(); }

std::vector<protocol::Member> Membership::join(const protocol::Member& me) {
  control_.join(me);
  return await(1, "join");
}

std::vector<protocol::Member> Membership::offer(int memory_fd,
                                                const std::vector<std::string>& addresses) {
  control_.offer(memory_fd, addresses);
  return await(2, "say how they are reached");
}

void Membership::ready(const std::function<void()>& meanwhile) {
  control_.ready();
  await(3, "be ready", meanwhile);
}

std::vector<protocol::Member> Membership::await(int round, const char* deed,
                                                const std::function<void()>& meanwhile) {
  std::vector<protocol::Member> members;
  while (static_cast<int>(members.size()) < size_) {
    auto roster = control_.roster(round, static_cast<int>(members.size()));
    throw_if_dead(roster);
    for (auto& member : roster.members) members.push_back(std::move(member));
    if (roster.missing.empty()) continue;
    throw_if_late(roster.missing, deed);
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(kRosterPause);
  }
  return members;
}

void Membership::throw_if_late(const std::vector<int>& missing, const char* deed) {
  if (time_.left() <= 0)
    throw TransportError(
        TransportError::Kind::deadline, missing[0],
        fmt::format("rank {} waited for all {} ranks to {}, but still missing are: rank {}", rank_,
                    size_, deed, fmt::join(missing, ", rank ")));
}

void Membership::still_meets(const std::vector<int>& unmet) {
  look_for_deaths(0);
  throw_if_late(unmet, "connect with it");
}

void Membership::look_for_deaths(double seconds) {
  for (Countdown time(seconds);; std::this_thread::sleep_for(kRosterPause)) {
    throw_if_dead(control_.roster(3, 0));
    if (time.left() <= 0) return;
  }
}

void Membership::watch(Deaths& deaths) {
  deaths.heard_until(0);
  thread_ = std::thread([this, &deaths] {
    beat(deaths);
    deaths.heard_until(std::numeric_limits<double>::infinity());  // nobody is to wait for more
  });
}

void Membership::beat(Deaths& deaths) {
  int known = 0, departed = 0;
  std::unique_lock lock(mutex_);
  const auto period = std::chrono::duration<double>(kHeartbeatSeconds);
  while (!stopped_.wait_for(lock, period, [this] { return stopping_; })) {
    lock.unlock();
    try {
      const double asked = wall_now();
      const auto news = control_.heartbeat(known, departed);
      for (const int rank : news.departed) {
        ++departed;
        if (rank >= 0 && rank < size_) deaths.report_left(rank);
      }
      for (const auto& death : news.deaths) {
        ++known;
        if (death.rank >= 0 && death.rank < size_ && death.rank != rank_)
          deaths.report(death.rank, death.reason);
      }
      if (!news.more) deaths.heard_until(asked);
    } catch (const Error&) {
      for (int r = 0; r < size_; ++r)
        if (r != rank_ && !deaths.left(r)) deaths.report(r, kCoordinatorLost[served_by_rank_0_]);
      return;
    }
    lock.lock();
  }
}

void Membership::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Membership::leave(int status, int blamed, const std::string& why) {
  stop();
  try {
    control_.leave(status, blamed, why);
  } catch (const Error&) {
  }
}

}  // namespace lockstep
