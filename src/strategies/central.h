// What strategies share whose workers go at their own pace and whose model is at servers: asp, ssp,
// downpour and easgd. The parameters are cut into as many shards as there are servers, which are
// ranks of their own; a worker pushes numbers to all of them and pulls weights when its rule says
// so, and a server does what its rule says (see CentralRule) as soon as numbers come.
//
// A push is 4N bytes from a worker, a pull 4|s_k| from server k. A worker that is gone is no
// concern of the others; a server that is gone stops all.
#pragma once

#include <optional>

#include "strategies/central_client.h"
#include "strategies/central_server.h"

namespace lockstep {

class Central : public Strategy, protected CentralRule {
 public:
  explicit Central(const Crew& crew)
      : Strategy(crew), client_(crew_, proof_, book_), counts_(1 + crew.workers) {}

  void serve(Replica&, const StepAt&, std::uint64_t first, std::uint64_t end) override;
  // Leaves the replica as it is: what it then goes on with is the strategy's affair.
  void rest(Replica&) override;
  // While there is training: asks the servers. At rest: what they came to.
  bool fetch_model(Values) override;
  void read_model(Replica&, Values model) override { fetch_model(model); }
  // In which the servers' rule held this worker back, or nobody needed this server.
  double waited_s() const override { return server_ ? server_->waited_s() : waited_s_; }

  // A server's counts.
  std::string state() const override;
  void restore(const std::string&) override;

  std::vector<Flow> flows(const Step&, int, std::size_t) const override { return {}; }
  std::uint64_t bytes_sent(const Step&, int, std::size_t) const override { return 0; }

 protected:
  // On workers, in update(). A push returns when the numbers are sent, and are the caller's again.
  void push(const Step&, Values);
  // Returns the clock of what is then in `into`.
  std::uint64_t pull(const Step&, Values into);
  std::uint64_t push_and_pull(const Step&, Values pushed, Values into);
  // The same in two parts, with time for something else in between.
  void start_pull(const Step&, Values into);
  std::uint64_t finish_pull();
  // What the servers said of the numbers that the last pull brought, and of at_rest().
  const Projection& pulled() const { return pulled_; }
  // Nothing lands any more where a pull was started. For destructors of who owns that memory.
  void drop_pull() { client_.cancel_all(); }

  // On servers: steps the shard with what a worker brought, by that worker's learning rate.
  void step_with(Replica&, const Push&);
  // On servers: adds it to the shard.
  void add(Replica&, const Push&);
  // First of all in update(), where a step may ask nothing: from now on the servers have newer.
  void leaves_rest() { resting_ = false; }
  // What the model came to, at rest.
  Values at_rest() const { return model_->values(); }

 private:
  void ask(const Step&, CentralRequest::Wants, Values pushed, Values into);

  std::optional<Scratch> model_;  // what the client asks for may land here, so it outlives it
  CentralClient client_;
  std::optional<CentralServer> server_;
  bool resting_ = false;
  CentralServer::Counts counts_;  // of a server, before it serves
  double waited_s_ = 0;
  Projection pulled_;
};

// x = y - x
void subtract_from(Values y, Values x);

}  // namespace lockstep
