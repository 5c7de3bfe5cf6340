#include "transport/simulated/window.h"

#include "transport/channels.h"
#include "transport/failure.h"
#include "transport/simulated/transport.h"

namespace lockstep {

SimulatedWindow::SimulatedWindow(All& all, SimulatedTransport& who, std::vector<int> members,
                                 std::shared_ptr<Memory> memory)
    : PlainWindow(all, who, std::move(members), std::move(memory)) {
  meeting_.who[index_] = &who;
}

SimulatedWindow::~SimulatedWindow() { close(); }

int SimulatedWindow::meet(const Words& mine) {
  come(mine, who_.patience());
  who_.pass(who_.world().cluster.local_latency_s);
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (words()[i] != mine) return members_[i];
  return -1;
}

void SimulatedWindow::moved(int, Tag, std::size_t read, std::size_t written) {
  who_.pass(static_cast<double>(read + written) / who_.world().cluster.local_bandwidth_bytes_per_s);
}

void SimulatedWindow::come(const Words& mine, Deadline deadline) {
  const std::uint64_t round = ++meeting_.arrivals[index_];
  words()[index_] = mine;
  bool all_here = true;
  for (std::size_t i = 0; i < members_.size(); ++i)
    while (meeting_.arrivals[i] < round) {
      all_here = false;
      if (who_.world().fate(members_[i]).gone) {
        const TransportError error =
            who_.world().gone_error(members_[i], who_.rank(), channels::kMeeting);
        who_.world().blame(who_.rank(), blame_of(error));
        throw error;
      }
      if (who_.now() >= deadline.at) throw too_late(members_[i], who_.rank(), channels::kMeeting);
      who_.sleep_among(members_, deadline.at);
    }
  if (!all_here) return;
  for (auto* other : meeting_.who)  // they sleep for me, the last
    if (other != &who_) other->actor().wake();
}

}  // namespace lockstep
