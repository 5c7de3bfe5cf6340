// Windows of the simulated world: plain memory. A meeting takes the local latency from the moment
// its last member comes; moved() takes bytes / local bandwidth.
#pragma once

#include "transport/plain_window.h"
#include "transport/transport.h"

namespace lockstep {

class SimulatedTransport;

// Where the members meet on one lane.
struct SimulatedMeeting {
  explicit SimulatedMeeting(std::size_t members) : who(members), arrivals(members) {
    for (auto& round : words) round.resize(members);
  }

  std::vector<SimulatedTransport*> who;  // null: has not used it yet
  std::vector<std::uint64_t> arrivals;   // how many rounds each member came to
  // By round, odd or even: nobody enters round n + 2 before all have left round n.
  std::vector<Window::Words> words[2];
};

class SimulatedWindow final
    : public PlainWindow<SimulatedWindow, SimulatedTransport, SimulatedMeeting> {
 public:
  SimulatedWindow(All&, SimulatedTransport& who, std::vector<int> members, std::shared_ptr<Memory>);
  ~SimulatedWindow() override;

  Words said(int rank) const override { return words()[index_of(rank)]; }
  int meet(const Words& mine) override;
  void moved(int, Tag, std::size_t read, std::size_t written) override;

  // Returns when all members have come.
  void come(const Words& mine, Deadline deadline);

 private:
  std::vector<Words>& words() const { return meeting_.words[meeting_.arrivals[index_] % 2]; }
};

}  // namespace lockstep
