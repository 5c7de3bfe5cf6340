// One UCX context with one worker: listens on one interface only, over TCP, and moves bytes only
// inside progress(). Used by one thread at a time.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

namespace lockstep {

class UcxWorker {
 public:
  // UsageError lists the interfaces if there is none of that name.
  explicit UcxWorker(const std::string& interface);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  // What a peer's worker needs to connect here; plain bytes.
  const std::string& address() const { return address_; }

  // Only hosts with these IPv4 addresses can connect from now on: the kernel drops what others send
  // here before UCX, which trusts whoever connects, reads it. At first all can.
  void admit_only(const std::vector<std::string>& addresses);
  void admit_all();

  // Moves what can be moved. True if anything did.
  bool progress() { return ucp_worker_progress(worker_) != 0; }
  // Sleeps until there may be something to move, `also` (a descriptor, or -1) is readable, or the
  // time has passed. May return early.
  void sleep(int also, double seconds);
  // For any thread: ends a sleep, or keeps the next one from starting.
  void wake() { ucp_worker_signal(worker_); }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
  std::vector<int> listeners_;  // UCX's own descriptors
};

}  // namespace lockstep
