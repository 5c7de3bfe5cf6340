// A worker's way to the servers of a central model that answer ahead of need: ssp's.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/servers/fed_push.h"

namespace lockstep {

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
class CentralStream : public std::enable_shared_from_this<CentralStream> {
 public:
  // For weights like these.
  CentralStream(const Crew& crew, Values weights, const MixAudit& proof);
  CentralStream(const CentralStream&) = delete;

  // All below is for the rank's thread. Throws what the job threw.

  // All have met: the weights of all servers have this clock.
  void meet(std::uint64_t clock);

  // Where the next change is to be written.
  Values change();

  // A part of it goes ahead, of so many numbers; the first with an opening (see fed_push.h). Never
  // blocks, nor throws what the job threw.
  void send_part(std::shared_ptr<const Pushed> messages, std::size_t count,
                 std::optional<PushOpening> opening);

  // Pushes it, this worker's `number`th, by these messages (none: all parts went ahead), and asks
  // for weights with at least the clock `oldest`.
  void send(std::shared_ptr<const Pushed> messages, std::uint32_t number, std::uint64_t step,
            std::uint64_t oldest);

  // How long each part took to be sent, since the last call: numbers, and seconds.
  std::vector<std::pair<std::size_t, double>> take_times();

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
  // What a step changed.
  struct Change {
    explicit Change(Values like) : values(like, like.count()) {}
    Scratch values;
    std::uint64_t number = 0;
    std::atomic<int> unsent = 0;  // orders whose messages the transport still needs
  };
  // What is to be sent of a change: all of it and the question that goes with it; or in parts,
  // ahead of that.
  struct Order {
    std::shared_ptr<Change> change;
    std::shared_ptr<const Pushed> messages;  // by server; none: no numbers
    std::vector<CentralRequest> words;       // by server; none: a part
    std::optional<PushOpening> opening;      // of the first part
    std::size_t count = 0;                   // numbers of a part
    int unsent = 0;                          // messages; the job's, as is:
    double since_s = 0;

    bool is_part() const { return words.empty(); }
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

  Slice shard(int k) const { return crew_.shard(k, pattern_.count()); }

  void put(std::shared_ptr<Order> order);
  // There is something to do for the job.
  void wake();
  void throw_if_failed() {
    if (failed_) background_.wait(job_);
  }

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
  std::vector<std::shared_ptr<Order>> outbox_;
  std::vector<std::pair<std::size_t, double>> times_;  // of parts
  std::vector<News> news_;                             // by server
  std::optional<Values> model_;                        // wanted, and not asked for yet
  int missing_ = 0;                                    // shards of it that have not come
  bool running_ = false;                               // a job, or one is posted
  bool awaited_ = false;                               // the rank's thread waits to be rung
  double talked_s_ = 0;

  std::atomic<bool> failed_ = false, abandoned_ = false;
};

}  // namespace lockstep
