// A worker's lines to the servers of a central model, on whatever lane these listen. Used by one
// thread at a time.
#pragma once

#include <vector>

#include "strategies/central_messages.h"

namespace lockstep {

class CentralClient {
 public:
  CentralClient(const Crew& crew, const MixAudit& proof) : crew_(crew), proof_(proof) {}
  CentralClient(const CentralClient&) = delete;

  // Says `request` to every server, with `pushed` cut into their shards if it brings numbers, and
  // with `proofs` of these by server (none without the audit). Returns when all is sent and what it
  // wants is in `into`: the oldest clock of all shards, the longest wait, and the proof of all
  // numbers. Nothing is open any more when it returns or throws.
  CentralAnswer ask(Transport& lane, const CentralRequest& request, Values pushed, Values into,
                    std::span<const Projection> proofs = {});

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

  void post(Transport&, const CentralRequest&, Values pushed, Values into);
  void send_in_turn(Transport&);
  void send(Transport&, int server, Values part);
  CentralAnswer answer(Transport&);
  void cancel_all(Transport&);
  Slice shard(int k) const { return server_shard(crew_, k, count_); }

  const Crew crew_;  // without its rank, which a job may outlive
  const MixAudit proof_;
  std::vector<CentralRequest> requests_;  // by server
  std::size_t count_ = 0;                 // parameters
  std::vector<Request> sent_;
  std::vector<Push> pushes_;
  std::vector<Open> open_;  // the words land in it
};

}  // namespace lockstep
