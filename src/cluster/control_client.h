// A worker's end of its control connection, proved on both sides. Belongs to one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/protocol_types.h"
#include "cluster/start.h"
#include "transport/awake_clock.h"

namespace lockstep {

namespace protocol {
class ControlIf;
}

class ControlClient {
 public:
  // A coordinator that dies closes the connection at once; only one that hangs, or whose host is
  // cut off, takes this long to be missed.
  static constexpr double kAnswerSeconds = 30;

  // Tries until the `time` is over: the coordinator may start later than its workers, and hang up
  // on one that has not proved itself yet when strangers crowd it.
  // UsageError: it refused the job key, or could not prove that it knows it.
  // A coordinator that does not answer a call for `answer_seconds` is lost. What this process
  // stands still does not count, nor what our launcher does, if it serves the coordinator: stopped
  // by Ctrl-Z or SIGSTOP, it answers when it goes on.
  ControlClient(const Start&, Countdown& time, double answer_seconds = kAnswerSeconds);
  ~ControlClient();

  // Each throws UsageError with the coordinator's words if it refuses, and TransportError if it is
  // lost.
  void join(const protocol::Member&);
  void offer(int memory_fd, const std::vector<std::string>& addresses);
  void ready();
  protocol::Roster roster(int round, int first);
  protocol::News heartbeat(int deaths, int departed);
  void leave(int status, int blamed, const std::string& why);

  // Our own address on the way to the coordinator, without the port.
  std::string local_address() const;

 private:
  struct Connection;
  void prove_both(const Start&);
  template <class Call>
  auto ask(Call);

  std::string address_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep
