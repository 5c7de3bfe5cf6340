// One of our ranks under test.
#pragma once

#include <memory>

#include "bench/participant.h"
#include "collectives/all_reduce.h"
#include "transport/rank.h"

namespace lockstep::bench {

class OurParticipant : public Participant {
 public:
  enum class World { real, simulated, hollow };  // hollow: simulated, with a size and no data
  // The rank stays the caller's.
  OurParticipant(Rank& rank, World world) : rank_(rank), peers_(rank.peers), world_(world) {}

  int rank() const override { return peers_.rank(); }
  int size() const override { return peers_.size(); }
  double now() const override { return peers_.now(); }
  // A window, so that collectives may work in place where peers can reach it.
  Bytes buffer(std::size_t bytes) override;
  void barrier() override;
  void all_reduce(const Work&, Values) override;
  void send(int to, Bytes bytes, int messages) override;
  void recv(int from, Bytes bytes, int messages) override;
  std::unique_ptr<PushPull> push_pull(const Work&) override;
  std::string chosen(const Work&, Values) override;
  std::optional<std::uint64_t> counted_all_reduce(const Work&, Values) override;
  bool common_clock() const override;
  bool virtual_time() const override { return world_ != World::real; }

 private:
  const AllReduceRow& row(const Work&);

  Rank& rank_;
  Transport& peers_;
  const World world_;
  const AllReduceRow* row_ = nullptr;
  std::unique_ptr<Window> window_;
};

}  // namespace lockstep::bench
