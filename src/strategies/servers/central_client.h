// A worker's lines to the servers of a central model, on whatever lane these listen. Used by one
// thread at a time.
#pragma once

#include <vector>

#include "strategies/servers/central_messages.h"

namespace lockstep {

class CentralClient {
 public:
  CentralClient(const Crew& crew, const MixAudit& proof) : crew_(crew), proof_(proof) {}
  CentralClient(const CentralClient&) = delete;

  // Says `request` to every server, with what is `pushed` there if it brings numbers, and with
  // `proofs` of these by server (none without the audit). Returns when all is sent and what it
  // wants is in `into`: the oldest clock of all shards, the longest wait, and the proof of all
  // numbers. Nothing is open any more when it returns or throws.
  CentralAnswer ask(Transport& lane, const CentralRequest& request, const Pushed& pushed,
                    Values into, std::span<const Projection> proofs = {});

 private:
  // What one server was asked for.
  struct Open {
    CentralAnswer answer;  // lands here
    Values into;
    std::size_t first;  // where in the model that is
    Pending word, numbers;
  };

  // Numbers that wait for their turn at a server.
  struct Push {
    int server;
    Pending turn;
  };

  // One round of questions. Whatever ends it, no message uses its memory afterwards.
  struct Talk {
    Transport& lane;
    const Pushed& pushed;                  // by server
    std::vector<CentralRequest> requests;  // by server
    std::vector<Open> open;
    std::vector<Push> pushes;
    std::vector<Pending> sent;
  };

  void post(Talk&, const CentralRequest&, Values into) const;
  void send_in_turn(Talk&) const;
  void send(Talk&, int server) const;
  CentralAnswer answer(Talk&) const;

  const Crew crew_;  // without its rank, which a job may outlive
  const MixAudit proof_;
};

}  // namespace lockstep
