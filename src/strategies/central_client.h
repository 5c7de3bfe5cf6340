// A worker's lines to the servers of a central model. Belongs to the rank's thread.
#pragma once

#include <vector>

#include "strategies/central_messages.h"

namespace lockstep {

class CentralClient {
 public:
  // All outlive it.
  CentralClient(const Crew& crew, const MixAudit& proof, WeightBook& book)
      : crew_(crew), proof_(proof), book_(book) {}
  CentralClient(const CentralClient&) = delete;
  ~CentralClient() { cancel_all(); }

  // Says `request` to every server, with `pushed` cut into their shards if it brings numbers. What
  // it wants will be in `into` when answer() returns. Returns when all is sent: nothing moves while
  // a rank computes. REQUIRES: no answer is awaited.
  void ask(const CentralRequest& request, Values pushed, Values into);
  bool awaits() const { return !open_.empty(); }
  // The oldest clock of all shards, the longest wait, and the proof of all numbers.
  CentralAnswer answer();
  // Ends what is open: the memory is the caller's again.
  void cancel_all();

 private:
  // What one server was asked for.
  struct Open {
    Request word, numbers;
    CentralAnswer answer;
    Values into;
    std::size_t first;  // where in the model that is
  };

  // Numbers on their way to a server, when it is their turn.
  struct Push {
    int server;
    Request turn;
    Values part;
  };

  void post(const CentralRequest&, Values pushed, Values into);
  void send_in_turn();
  void send(int server, Values part);
  Slice shard(int k) const { return server_shard(crew_, k, count_); }
  template <class F>
  void or_cancel(F&& call);

  const Crew& crew_;
  const MixAudit& proof_;
  WeightBook& book_;
  std::uint32_t pushed_ = 0;              // how often so far
  bool awaits_weights_ = false;           // to go on with, else a model
  std::vector<CentralRequest> requests_;  // by server
  std::size_t count_ = 0;                 // parameters
  std::vector<Request> sent_;
  std::vector<Push> pushes_;
  std::vector<Open> open_;  // the words land in it
};

}  // namespace lockstep
