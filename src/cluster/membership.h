// A worker's place in the job: joined, introduced to all others, and told when one dies.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/protocol_types.h"
#include "cluster/start.h"
#include "transport/awake_clock.h"
#include "transport/deaths.h"

namespace lockstep {

// A worker's end of its control connection, proved on both sides. Belongs to one thread at a time.
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

  // Makes a call of the protocol. UsageError with the coordinator's words if it refuses, and
  // TransportError if it is lost. For membership.cpp alone.
  template <class Call>
  void ask(Call call);

  // Our own address on the way to the coordinator, without the port.
  std::string local_address() const;

 private:
  struct Connection;
  void prove_both(const Start&);

  std::string address_;
  std::unique_ptr<Connection> connection_;
};

class Membership {
 public:
  static constexpr double kHeartbeatSeconds = 0.1;

  // Connects and proves itself. So many seconds are for this and all three rounds.
  Membership(const Start&, double seconds);
  // Stops the heartbeats. Without leave(), the coordinator takes this rank for dead.
  ~Membership();

  // Three rounds, each once and in this order. Each returns when all ranks have done the same;
  // TransportError names the missing at the deadline, or who died; UsageError tells what the
  // coordinator refused. All members by rank: who is where, then how they are reached.
  std::vector<protocol::Member> join(const protocol::Member& me);
  std::vector<protocol::Member> offer(int memory_fd, const std::vector<std::string>& addresses);
  // This rank can reach all others. After it nobody needs what the others offered. `meanwhile` is
  // called again and again until all are ready: others may still need this rank's answer.
  void ready(const std::function<void()>& meanwhile = {});

  // Before ready(), for one that could not reach a peer yet: TransportError if a death becomes
  // known within so long, also if it is known already.
  void look_for_deaths(double seconds);
  // Before ready(), for one that `unmet` have not answered yet: TransportError if a death is known,
  // or at the deadline.
  void still_meets(const std::vector<int>& unmet);

  std::string local_address() const { return control_.local_address(); }

  // From now on a thread of its own sends heartbeats and reports who died and who left; if the
  // coordinator is lost, it reports every peer that had not left as dead. `deaths` must outlive
  // this. Once, after ready().
  void watch(Deaths& deaths);

  // Tells the coordinator, see Members::leave(). A coordinator already lost is no error here.
  void leave(int status, int blamed, const std::string& why);

 private:
  std::vector<protocol::Member> await(int round, const char* deed,
                                      const std::function<void()>& meanwhile = {});
  // What the coordinator knows of that round, and members from rank `first` on.
  protocol::Roster roster_of(int round, int first);
  void throw_if_late(const std::vector<int>& missing, const char* deed);
  void beat(Deaths& deaths);
  void stop();

  const int rank_, size_;
  const bool served_by_rank_0_;
  Countdown time_;
  ControlClient control_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
