// A server of a central model: it holds one shard of the weights, and answers each worker when it
// asks. Which worker is slow, or gone, is of no concern to the others, unless the strategy's rule
// says so.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/servers/central_messages.h"

namespace lockstep {

// What one strategy's servers do; called on the thread that serves, at one shard.
class CentralRule {
 public:
  // What a worker brought.
  struct Push {
    int worker;
    std::uint64_t step;
    Slice shard;
    // The shard's; may be written, and stay until this worker brings the next, if the rule does not
    // work in place.
    Values values;
    Projection proof;     // of what the worker sent
    std::uint64_t stamp;  // see CentralRequest
    // Updates of this shard so far, and those of them that the worker had not seen when it last
    // read.
    std::uint64_t updates, staleness;
  };
  virtual ~CentralRule() = default;

  virtual void start(std::uint64_t /*first*/) {}  // all workers are about to take this step
  // True: the weights of the shard have changed.
  virtual bool apply(Replica&, const Push&) = 0;
  // What that does: one step of the optimiser with what was brought; else it is added to the
  // weights, and what had come before and was not added yet.
  virtual bool steps() const { return false; }
  // True: apply() steps at once with what was brought, and nothing else changes the weights. Then,
  // where all workers are on the server's host, long pushes land in the replica's gradients, and
  // answers go from where the weights are; push.values are of no use after apply().
  virtual bool works_in_place() const { return false; }
  // May this worker, which wants weights with at least that clock, have them now? Else it is asked
  // again whenever anything has happened.
  virtual bool may_read(int /*worker*/, std::uint64_t /*oldest*/) const { return true; }
  // See CentralAnswer.
  virtual std::uint64_t clock() const { return 0; }
  // Do workers wait for their turn before a long push? See central_messages.h.
  virtual bool gives_turns() const { return true; }
  // True: the weights of the shard have changed.
  virtual bool rests(Replica&, int /*worker*/) { return false; }
  // Do workers go on from the model that they are given at rest?
  virtual bool reads_at_rest() const { return true; }
  // Or throws, where all have to stop.
  virtual void gone(Replica&, int /*worker*/, const TransportError&) {}
};

class CentralServer {
 public:
  // Updates of its shard; then, by worker, those made before it last read.
  using Counts = std::vector<std::uint64_t>;

  // All outlive it. Goes on from these counts.
  CentralServer(const Crew&, const MixAudit&, const PushCode&, CentralRule&, const Counts&);
  Counts counts() const;
  // Seconds in which no worker wanted or brought anything.
  double waited_s() const { return waited_s_; }

  // Until every worker rests or is gone; then gives the model to those that rest. On the lane that
  // workers talk on.
  void serve(Transport& lane, Replica&, std::uint64_t first);

 private:
  // Weights that a worker wants, and may not have yet.
  struct Question {
    std::uint64_t oldest;
    std::optional<double> held_since = {};  // if the rule did not allow it at once
  };
  // What is on its way to a worker: a copy, so that the next push is applied meanwhile; or the
  // weights themselves, and then the next push waits for them.
  struct Gift {
    CentralAnswer answer;
    std::optional<Scratch> given;  // the copy; none: there never was one
    std::vector<Pending> sends;    // none: it has arrived
    Tag tag = {};                  // of the numbers
    Request lent = {};             // sends the weights themselves
  };
  // Numbers of the shard that are one message. Of a push that was opened: one that waits for a
  // turn, unless the worker has it.
  struct Piece {
    Slice slice;
    bool waits = false;
  };
  // A worker, as the server sees it. One receive is open from each that is neither gone nor rests,
  // so that its death is noticed whatever it does.
  struct Client {
    bool gone = false, rests = false;
    CentralRequest request;
    bool brings = false;  // the open receive is of the numbers, else of a request
    // Of a push that was opened and goes in buckets.
    CentralPlan plan, next_plan;    // how this worker cuts; the one that is being received
    std::uint32_t opened = 0;       // which push it is: its last word has not come. 0: none
    bool tells_plan = false;        // the open receive is of that
    std::vector<Piece> coming;      // of the numbers, not come yet; the first is being received,
    bool asks = false;              // or the word that asks for its turn
    CentralTurn in_turn = 0;        // messages that it asked for, and that have not come
    std::vector<std::byte> memory;  // where that may land
    bool has_turn = false;
    std::deque<Question> questions;
    std::uint64_t seen = 0;    // updates when it read last
    std::uint64_t pushes = 0;  // that it has brought,
    Projection brought;        // and their sum, for the audit
    std::optional<Scratch> pushed;
    std::list<Gift> gifts;
    Pending receive;
    Pending told;  // that it has its turn

    bool active() const { return !gone && !rests; }
    // Gives up all that is under way.
    void drop();
  };

  bool anyone_active() const;
  // Where the numbers of a worker land.
  Values numbers_of(Replica&, int worker);
  // Until the weights can change: none are on their way from where they are.
  void await_lent(Replica&);
  void await_request(int worker);
  // The open receive is of the next piece of its numbers from now on, or of the word that asks for
  // its turn; or, where all of a push that was opened have come, of the word that ends it.
  void await_numbers(Replica&, int worker);
  void await_plan(int worker, std::uint64_t buckets);
  // Of a push that it opened.
  std::vector<Piece> pieces_by_plan(int worker, Values numbers) const;
  // It asks for its turn.
  void asked(Replica&, int worker);
  // An open push or its plan, or the word that ends it, has come. True: there is nothing else to do
  // with that.
  bool opened(Replica&, int worker);
  // Waits for any worker, and does what it asks for.
  void turn(Replica&);
  void arrived(Replica&, int worker, const Arrival&);
  // Whoever waits to push, and is not kept from it by others.
  void give_turns();
  void apply(Replica&, int worker);
  void act(Replica&, int worker);
  // Has this worker brought numbers as often as it told?
  void check_pushes(const Client&, std::uint64_t told) const;
  // Runs `change`, which says whether the weights of the shard have changed, and proves that they
  // have as the rule says: by all of `due_`.
  bool audited(Replica&, const std::function<bool(Replica&)>& change);
  void answer_held(Replica&);
  // Sends the weights, or a copy, after the answer.
  void give(int worker, const CentralAnswer&, Values weights, Purpose);
  void give_to_all_that_rest(Replica&);
  // Goes on without a worker, or throws, if all have to stop.
  void lose(Replica&, int worker, const TransportError&);

  const Crew& crew_;
  const MixAudit& proof_;
  const PushCode& code_;
  CentralRule& rule_;
  Transport* lane_ = nullptr;  // while it serves
  Slice shard_;
  // Pushes land in the replica's gradients, so that one is applied before the next worker has its
  // turn: the server itself copies them, and would gain nothing by an earlier one.
  bool in_place_ = false;
  std::vector<Client> clients_;  // by worker
  std::uint64_t updates_;
  std::vector<Term> due_;              // brought, and not in the weights yet
  std::optional<Projection> weights_;  // of the shard, after the last change
  double waited_s_ = 0;
  int next_ = 0;            // whose request is looked at first
  std::vector<int> queue_;  // workers that wait for their turn to push, in order
};

}  // namespace lockstep
