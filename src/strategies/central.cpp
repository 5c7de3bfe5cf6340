#include "strategies/central.h"

#include <fmt/ranges.h>

#include <sstream>

namespace lockstep {

using Wants = CentralRequest::Wants;

namespace {

Values nothing_like(Values values) { return values.part({0, 0}); }

}  // namespace

void Central::serve(Replica& replica, const StepAt&, std::uint64_t first, std::uint64_t) {
  if (!server_) server_.emplace(crew_, proof_, static_cast<CentralRule&>(*this), counts_);
  server_->serve(replica, first);
}

std::string Central::state() const {
  if (crew_.works()) return "";
  return fmt::format("{}", fmt::join(server_ ? server_->counts() : counts_, " "));
}

void Central::restore(const std::string& state) {
  if (crew_.works()) return;
  std::istringstream text(state);
  for (std::uint64_t& count : counts_)
    if (!(text >> count)) throw UsageError("the saved state of a server is damaged");
}

void Central::rest(Replica& replica) {
  const Values weights = replica.weights();
  if (!model_) model_.emplace(weights, weights.count());
  client_.ask({Wants::rest}, nothing_like(weights), model_->values());
  pulled_ = client_.answer().proof;
  resting_ = true;
}

bool Central::fetch_model(Values model) {
  if (resting_) {
    copy(model.bytes(), model_->values().bytes());
    proof_.expect("model at rest", model, {{1, pulled_}});
    return true;
  }
  client_.ask({Wants::model}, nothing_like(model), model);
  client_.answer();
  return true;
}

void Central::ask(const Step& step, Wants wants, Values pushed, Values into) {
  resting_ = false;
  client_.ask({wants, pushed.count() > 0 ? 1u : 0u, step.number}, pushed, into);
}

void Central::push(const Step& step, Values pushed) {
  ask(step, Wants::nothing, pushed, nothing_like(pushed));
}

std::uint64_t Central::pull(const Step& step, Values into) {
  start_pull(step, into);
  return finish_pull();
}

std::uint64_t Central::push_and_pull(const Step& step, Values pushed, Values into) {
  ask(step, Wants::weights, pushed, into);
  return finish_pull();
}

void Central::start_pull(const Step& step, Values into) {
  ask(step, Wants::weights, nothing_like(into), into);
}

std::uint64_t Central::finish_pull() {
  const CentralAnswer answer = client_.answer();
  waited_s_ += answer.held_s;
  pulled_ = answer.proof;
  return answer.clock;
}

void Central::step_with(Replica& replica, const Push& push) {
  const Values gradients = replica.gradients().part(push.shard);
  copy(gradients.bytes(), push.values.bytes());
  const Term pushed[] = {{1, push.proof}};
  proof_.expect("gradients that a worker pushed", gradients, pushed, push.shard.begin);
  replica.apply_gradients(push.step, push.shard, push.updates);
}

void Central::add(Replica& replica, const Push& push) {
  const Values weights = replica.weights().part(push.shard);
  const Term sum[] = {{1, proof_.of(weights, push.shard.begin)}, {1, push.proof}};
  combine(weights, push.values.bytes());
  proof_.expect("weights with what a worker pushed", weights, sum, push.shard.begin);
}

void subtract_from(Values y, Values x) {
  scale(x, -1);
  combine(x, y.bytes());
}

}  // namespace lockstep
