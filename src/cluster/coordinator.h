// The control plane's one server: workers prove that they know the job key, join, are introduced to
// each other, and hear of deaths. It runs on a thread of its own, in the launcher or in rank 0.
// Strangers (port scans, garbage, huge lengths, silence, more connections than this process may
// open) are dropped and disturb nobody; nothing they send is believed before the handshake. The
// wire is not encrypted: who can alter packets on the way is outside its protection.
#pragma once

#include <memory>
#include <string>

#include "cluster/host.h"
#include "cluster/members.h"

namespace lockstep {

struct CoordinatorOptions {
  Address listen{"127.0.0.1", 0};  // only there; port 0: a free one
  int size = 1;
  std::string key;  // 32 bytes
};

class Coordinator {
 public:
  // Connections that have not proved themselves after so long are closed, and the oldest of them
  // earlier where they are too many: a worker whose handshake is cut off tries again.
  static constexpr double kStrangerSeconds = 5;

  // Listens when it returns, in the calling thread's network namespace. UsageError if it can't.
  explicit Coordinator(const CoordinatorOptions&);
  // Closes all connections: workers that have not left take the coordinator for lost.
  ~Coordinator();

  Address address() const;   // with the port it got
  Members& members() const;  // thread-safe

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep
