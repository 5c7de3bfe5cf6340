// A worker's steps to the servers of a central model, one after the other: each pushes what it
// changed and asks for weights, and the worker goes on meanwhile. One job on the background's lane
// carries all that is under way, as long as anything is; it is always inside a call, and the rank's
// thread rings when there is more. Every question is answered, in order, when the server's rule
// allows it.
//
// Weights that come hold those of this worker's changes that the server had by then. The others are
// added when they are taken, so that none of its own changes is ever missing or counted twice.
//
// Used by a rank and its own background at once, and owned by both: the job may outlive the
// strategy that posted it by a moment.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/servers/central_messages.h"

namespace lockstep {

class CentralStream : public std::enable_shared_from_this<CentralStream> {
 public:
  // For weights like these.
  CentralStream(const Crew&, Values weights, const MixAudit&);
  CentralStream(const CentralStream&) = delete;

  // All below is for the rank's thread. Throws what the job threw.

  // All have met: the weights of all servers have this clock.
  void meet(std::uint64_t clock);
  // Where the next change is to be written.
  Values change();
  // Pushes it, this worker's `number`th, by these messages, and asks for weights with at least the
  // clock `oldest`.
  void send(std::shared_ptr<const Pushed> messages, std::uint32_t number, std::uint64_t step,
            std::uint64_t oldest);
  // Until no more than so many questions are without an answer. Returns for how many seconds of
  // that the servers' rule held this worker back.
  double await(std::uint64_t unanswered);
  // Has anything come since the last call? Then the weights become that, with the changes that are
  // not in it yet; `mix` says so for the audit.
  bool take(Values weights, std::vector<Term>& mix);
  // The model as it is now, without the changes that are under way.
  void fetch(Values model);
  // Until nothing is under way.
  void settle();
  // Seconds in which something was under way while this rank went on.
  double hidden_s();
  // The strategy goes away, and the job when it is rung.
  void abandon();

 private:
  class Job;
  // What a step changed, and the question that goes with it.
  struct Change {
    explicit Change(Values like) : values(like, like.count()) {}
    Scratch values;
    std::shared_ptr<const Pushed> messages;
    std::uint64_t number = 0;
    std::vector<CentralRequest> words;  // by server
    std::atomic<int> unsent = 0;        // messages that the transport still needs
  };
  // What a server has answered.
  struct News {
    explicit News(Values shard) : weights(shard, shard.count()), landing(shard, shard.count()) {}
    // Under the lock:
    Scratch weights;
    CentralAnswer answer;
    std::uint64_t answers = 0;  // so far
    bool is_new = false;        // not taken yet
    // The job's:
    Scratch landing;
    CentralAnswer next;
  };
  // What the rank's thread has of one server's shard.
  struct Copy {
    std::uint64_t clock = 0;   // see CentralAnswer
    std::uint64_t pushes = 0;  // own changes that were in when it came
    Projection pushed;         // all own changes so far, for the audit
  };

  Slice shard(int k) const { return server_shard(crew_, k, pattern_.count()); }
  std::uint64_t answered() const;  // by all servers. Under the lock
  // There is something to do for the job.
  void wake();
  // Until `ready`, which is asked under the lock, or the job has failed.
  template <class F>
  void wait_until(F&& ready);

  const Crew crew_;  // without its rank, which a job may outlive
  const MixAudit proof_;
  const Values pattern_;  // what buffers are like; its memory is not touched
  Transport& peers_;
  Background& background_;
  Clock& clock_;
  Lock& lock_;

  // The rank's own.
  std::list<std::shared_ptr<Change>> changes_;  // not in all that was taken, by number
  std::vector<std::shared_ptr<Change>> spare_;
  std::shared_ptr<Change> next_;
  std::vector<Copy> copies_;  // by server
  std::uint64_t asked_ = 0, job_ = 0;
  double blocked_s_ = 0;

  // Under the lock:
  std::vector<std::shared_ptr<Change>> outbox_;
  std::vector<News> news_;       // by server
  std::optional<Values> model_;  // wanted, and not asked for yet
  int missing_ = 0;              // shards of it that have not come
  bool running_ = false;         // a job, or one is posted
  bool awaited_ = false;         // the rank's thread waits to be rung
  double talked_s_ = 0;

  std::atomic<bool> failed_ = false, abandoned_ = false;
};

}  // namespace lockstep
