#include "cluster/job.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "cluster/coordinator.h"
#include "cluster/host.h"
#include "cluster/membership.h"
#include "cluster/wiring.h"
#include "core/error.h"
#include "transport/real_rank.h"

namespace lockstep {

namespace {

// For a death to become known here, and for survivors to hear that rank 0, which serves them, gives
// up.
constexpr double kNewsSeconds = 2;
// How often one that connects with its peers looks whether one of them died.
constexpr double kMeetSeconds = 0.1;

protocol::Member introduction(const Start& start) {
  protocol::Member me;
  me.rank = start.rank;
  me.host = host_identity();
  me.host_name = host_name();
  me.pid = getpid();
  for (const Iface& iface : interfaces())
    if (iface.address.find(':') == std::string::npos) me.sources.push_back(iface.address);
  if (std::ssize(me.sources) > Members::kMostSources) me.sources.clear();  // not all can be told
  return me;
}

}  // namespace

void follow_launcher(const Start& start) {
  if (start.launcher_pid == 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before that took hold.
  if (kill(start.launcher_pid, 0) != 0 && errno == ESRCH)
    throw TransportError(
        TransportError::Kind::dead, -1,
        fmt::format("the launcher of this rank (pid {}) is gone", start.launcher_pid));
}

struct Job::Parts {
  Parts(const Start& start, const JobOptions& options) : options(options), deaths(start.size) {
    options.lanes.check();
    follow_launcher(start);
    if (start.serves_coordinator)
      coordinator.emplace(
          CoordinatorOptions{parse_address(start.address, "--listen"), start.size, start.key});
    membership.emplace(start, options.join_seconds);
    try {
      auto lanes = introduce(start);
      membership->watch(deaths);
      rank.emplace(std::move(lanes), options.seed);
    } catch (const Error& error) {
      depart(Members::kFailed, blamed_by(error), error.what());
      throw;
    }
  }

  std::vector<std::unique_ptr<Transport>> introduce(const Start& start) {
    Wiring wiring(start, membership->join(introduction(start)), membership->local_address(),
                  options.patience_seconds, options.lanes, deaths);
    const auto members = membership->offer(wiring.memory_fd(), wiring.addresses());
    try {
      auto lanes = wiring.open_lanes(members);
      for (auto unmet = wiring.meet_everybody(kMeetSeconds); !unmet.empty();
           unmet = wiring.meet_everybody(kMeetSeconds))
        membership->still_meets(unmet);
      membership->ready([&] { wiring.meet_everybody(0); });
      wiring.close_doors();
      return lanes;
    } catch (const InternalError&) {
      membership->look_for_deaths(kNewsSeconds);  // the better explanation
      throw;
    } catch (const TransportError&) {
      membership->look_for_deaths(kNewsSeconds);
      throw;
    }
  }

  int blamed_by(const std::exception& error) const {
    const auto* transport = dynamic_cast<const TransportError*>(&error);
    return transport ? transport->peer() : first_death();
  }
  // Where others go on without the dead, they explain nothing that comes later.
  int first_death() const { return options.goes_on ? -1 : deaths.first(); }

  // First the coordinator is told, then the peers see this rank leave.
  void depart(int status, int blamed, const std::string& why) {
    membership->leave(status, blamed, why);
    rank.reset();
    if (!coordinator) return;
    Countdown time(status == Members::kWell ? options.patience_seconds : kNewsSeconds);
    while (!coordinator->members().all_gone() && time.left() > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const JobOptions options;
  Deaths deaths;
  std::optional<Coordinator> coordinator;
  std::optional<Membership> membership;
  std::optional<RealRank> rank;
};

Job::Job(const Start& start, const JobOptions& options)
    : parts_(std::make_unique<Parts>(start, options)) {}

Job::~Job() {
  if (parts_->rank)
    parts_->depart(Members::kFailed, parts_->first_death(), "it ended before it had left the job");
}

Rank& Job::rank() { return parts_->rank->rank(); }

void Job::leave() {
  parts_->deaths.blame({});  // a rank that leaves in good order does not leave because of a death
  parts_->depart(Members::kWell, -1, "");
}

void Job::fail(const std::exception& error, bool stops_all) {
  parts_->depart(stops_all ? Members::kStopsAll : Members::kFailed, parts_->blamed_by(error),
                 error.what());
}

}  // namespace lockstep
