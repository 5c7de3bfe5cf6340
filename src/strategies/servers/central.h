// What strategies share whose workers go at their own pace and whose model is at servers: asp, ssp,
// downpour and easgd. The parameters are cut into as many shards as there are servers, which are
// ranks of their own; a worker pushes numbers to all of them and pulls weights when its rule says
// so, and a server does what its rule says (see CentralRule) as soon as numbers come.
//
// A push is 4N bytes from a worker, a pull 4|s_k| from server k. A worker that is gone is no
// concern of the others; a server that is gone stops all.
#pragma once

#include <optional>

#include "strategies/servers/central_server.h"
#include "strategies/servers/fed_push.h"

namespace lockstep {

class Central : public Strategy,
                public Apart,
                public Serving,
                public Measured,
                public ExchangeProofs,
                protected CentralRule {
 public:
  // Where workers and servers talk: on the rank's own lane, so that nothing stands between a rank
  // that waits and its answer; or on the background's, so that messages move while workers compute.
  enum class Talks { here, beside };

  Central(const Crew& crew, Talks talks)
      : Strategy(crew, {.serving = this, .apart = this, .measured = this, .proofs = this}),
        talks_(talks),
        code_(make_push_code(crew)),
        counts_(1 + crew.workers) {}

  void begin(Replica&) override;
  void serve(Replica&, const StepAt&, std::uint64_t first, std::uint64_t end) override;
  // Leaves the replica as it is: what it then goes on with is the strategy's affair.
  void rest(Replica&) override;
  // While there is training: asks the servers. At rest: what they came to.
  bool fetch_model(Values) override;
  // Waited: while the servers' rule held this worker back, or nobody needed this server.
  const Figures& figures() override;

  // Of a worker: its code's. Of a server: its counts.
  std::vector<Kept> memories() override { return code_->memories(); }
  std::string state() const override;
  void restore(const std::string&) override;

 protected:
  // Something said to the servers that may still be under way.
  struct Talk {
    std::uint64_t job = 0;
    CentralRequest::Wants wants = CentralRequest::Wants::nothing;
    std::shared_ptr<CentralAnswer> answer = nullptr;
  };

  // On workers, in update(). A push returns when the numbers are sent, and are the caller's again;
  // a pull when the servers' weights are in `into`.
  void push(const Step&, Values);
  void pull(const Step&, Values into);
  void push_and_pull(const Step&, Values pushed, Values into);

  // The same in two parts. REQUIRES: Talks::beside. The numbers are the talk's until it is
  // finished: a talk is finished by the strategy before it is forgotten, or outlives it with the
  // memory.
  Talk start_push(const Step&, std::shared_ptr<Scratch> pushed);
  Talk start_pull(const Step&, std::shared_ptr<Scratch> into);
  // Nothing happens with a talk that was never started, or finished before.
  void finish(Talk&);
  // A push that begins while backward runs (see fed_push.h). REQUIRES: Talks::beside. From begin()
  // on, of the replica's gradients; by that rule.
  void feeds_pushes(const BucketRule& rule) { fed_.emplace(crew_, *code_, proof_, rule); }
  FedPush& fed() { return *fed_; }
  void open_push(double share);
  // The rest of it, and then a pull.
  void finish_push_and_pull(const Step&, Values into);

  // What the servers said of the numbers that the last pull brought, and of at_rest().
  const Projection& pulled() const { return pulled_; }

  // What goes to each server: then the numbers are what the servers make of it. In turn: see
  // central_messages.h.
  std::shared_ptr<const Pushed> encode(Values numbers, bool in_turn);
  // The same of one part of a push, from that number on, by server: none where a server has nothing
  // of it. Between two calls of note_memories(), which says for the audit what the code's memories
  // were before, and are after all of it.
  std::shared_ptr<const Pushed> encode_part(Values part, std::size_t first, std::size_t count);
  void note_memories(double OfMemory::*factor);

  // On servers: steps the shard with what a worker brought, by that worker's learning rate.
  void step_with(Replica&, const Push&);
  // On servers: adds it to the shard.
  void add(Replica&, const Push&);
  // First of all in update(), where a step may ask nothing: from now on the servers have newer.
  void leaves_rest() { resting_ = false; }
  // How often this worker has pushed numbers, with the one that it is about to push.
  std::uint32_t count_push() { return ++pushes_; }
  // For so long the servers' rule held this worker back.
  void was_held_back(double seconds) { figures_.waited_s += seconds; }
  // What the model came to, at rest.
  Values at_rest() const { return model_->values(); }

 private:
  struct Shared;

  Talk start(const CentralRequest&, std::shared_ptr<const Pushed> messages, Values pushed,
             Values into, std::shared_ptr<const void> memory = nullptr);
  Talk start(const CentralRequest&, Values pushed, Values into,
             std::shared_ptr<const void> memory = nullptr);
  Talk start(const Step&, CentralRequest::Wants, Values pushed, Values into,
             std::shared_ptr<const void> memory = nullptr);

  const Talks talks_;
  const std::unique_ptr<PushCode> code_;
  std::optional<Scratch> model_;
  std::shared_ptr<Shared> shared_;  // with jobs, from the first word on
  std::optional<CentralServer> server_;
  bool resting_ = false;
  std::uint32_t pushes_ = 0;
  CentralServer::Counts counts_;  // of a server, before it serves
  Projection pulled_;
  double blocked_s_ = 0;        // until a talk beside the computation was done
  std::optional<FedPush> fed_;  // the last: what is under way uses all of this
};

// x = y - x
void subtract_from(Values y, Values x);

}  // namespace lockstep
