#include "strategies/servers/central.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <utility>

#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

namespace {

Values nothing_like(Values values) { return values.part({0, 0}); }

// A worker's words to all servers, and what they answer, on whatever lane these listen. Whatever
// ends it, no message uses its memory afterwards.
class Questions {
 public:
  // `pushed`: what goes to each server, if the request brings numbers. Both outlive this. Of the
  // crew all is used but its rank, which a job may outlive.
  Questions(Transport& lane, const Crew& crew, const Pushed& pushed)
      : lane_(lane), crew_(crew), pushed_(pushed) {}

  // Says `request` to every server, with the proofs of what is pushed by server (none without the
  // audit). Returns when all is sent and what it wants is in `into`: the longest wait, and the
  // proof of all numbers.
  CentralAnswer ask(const CentralRequest& request, Values into, std::span<const Projection> proofs,
                    const MixAudit& audit) {
    requests_.assign(crew_.servers, request);
    for (std::size_t k = 0; k < proofs.size(); ++k) requests_[k].proof = proofs[k];
    post(request, into);
    send_in_turn();
    for (Pending& sent : sent_)
      if (sent) lane_.wait(sent);
    return answer(audit);
  }

 private:
  // What one server was asked for.
  struct Open {
    CentralAnswer answer;  // lands here
    Values into;
    std::size_t first;  // where in the model that is
    Pending word, numbers;
  };
  void post(const CentralRequest& request, Values into) {
    const bool goes_on = request.wants == Wants::weights;
    const Purpose purpose = goes_on ? Purpose::weights : Purpose::evaluation;
    open_.reserve(crew_.servers);  // so that answers stay where they land
    // Each worker begins with another server, so that not all push to the same one first.
    for (int i = 1; i <= crew_.servers; ++i) {
      const int k = (lane_.rank() + i) % crew_.servers, server = crew_.rank_of_server(k);
      if (request.wants != Wants::nothing) {
        const Slice shard = crew_.shard(k, into.count());
        const Values part = into.part(shard);
        Open& open = open_.emplace_back(Open{{}, part, shard.begin, {}, {}});
        open.word =
            lane_.recv(server, goes_on ? kCentralAnswer : kCentralModel, bytes_of(open.answer));
        open.numbers = lane_.recv(server, central_numbers(purpose, part), part.bytes());
      }
      if (request.brings && pushed_[k].size() > 1) {
        in_turn_.push_back(k);
        continue;
      }
      say(k);
      if (request.brings) send(k);
    }
  }

  // One server after the other: a worker that waited at all of them would get its turn everywhere
  // at once, since all hear of it at the same time, and its own line would be everybody's limit.
  void send_in_turn() {
    for (const int k : in_turn_) {
      Pending turn = lane_.recv(crew_.rank_of_server(k), kCentralTurn, {});
      say(k);
      wait_while_it_lives(lane_, turn);
      const std::size_t first = sent_.size();
      send(k);
      for (std::size_t i = first; i < sent_.size(); ++i) wait_while_it_lives(lane_, sent_[i]);
    }
  }

  void say(int k) {
    sent_.push_back(lane_.send(crew_.rank_of_server(k), kCentralRequest, bytes_of(requests_[k])));
  }
  void send(int k) {
    for (const PushMessage& part : pushed_[k])
      sent_.push_back(lane_.send(crew_.rank_of_server(k), part.tag, part.bytes));
  }

  CentralAnswer answer(const MixAudit& audit) {
    CentralAnswer all;
    for (Open& open : open_) {
      // A server may hold its answer back until others have taken their steps.
      wait_while_it_lives(lane_, open.word);
      wait_while_it_lives(lane_, open.numbers);
      const Term held[] = {{1, open.answer.proof}};
      audit.expect("weights that a server held", open.into, held, open.first);
      all.proof += open.answer.proof;
      all.held_s = std::max(all.held_s, open.answer.held_s);
    }
    return all;
  }

  Transport& lane_;
  const Crew& crew_;
  const Pushed& pushed_;
  std::vector<CentralRequest> requests_;  // by server
  std::vector<Open> open_;
  std::vector<int> in_turn_;  // servers whose push waits for its turn
  std::vector<Pending> sent_;
};

}  // namespace

// What jobs need: they may outlive the strategy.
struct Central::Shared {
  const Crew crew;  // without its rank
  const MixAudit proof;
  Clock& clock;
  std::atomic<double> talked_s = 0;  // beside the computation or not
};

void Central::begin(Replica& replica) {
  if (!crew_.works()) return;
  code_->begin(replica.weights(), replica.parameters());
  if (fed_) fed_->begin(replica.gradients(), replica.parameters());
}

void Central::serve(Replica& replica, const StepAt&, std::uint64_t first, std::uint64_t) {
  if (!server_) server_.emplace(crew_, proof_, *code_, static_cast<CentralRule&>(*this), counts_);
  if (talks_ == Talks::here) return server_->serve(crew_.rank.peers, replica, first);
  Background& background = crew_.rank.background;
  background.wait(background.post(
      [this, &replica, first](Transport& lane) { server_->serve(lane, replica, first); }));
}

const Figures& Central::figures() {
  if (server_) figures_.waited_s = server_->waited_s();
  figures_.hidden_s = shared_ ? shared_->talked_s - blocked_s_ : 0;
  if (fed_) {
    figures_.hidden_s += fed_->hidden_s();
    figures_.buckets = fed_->feed().figures();
    if (fed_->feed().is_open()) return figures_;  // the code is at work
  }
  figures_.coding = code_->coding();
  return figures_;
}

std::string Central::state() const {
  if (crew_.works()) return fed_ ? fed_->feed().state_with(code_->state()) : code_->state();
  return fmt::format("{}", fmt::join(server_ ? server_->counts() : counts_, " "));
}

void Central::restore(const std::string& state) {
  if (crew_.works()) return code_->restore(fed_ ? fed_->feed().restore_from(state) : state);
  std::istringstream text(state);
  for (std::uint64_t& count : counts_)
    if (!(text >> count)) throw UsageError("the saved state of a server is damaged");
}

void Central::rest(Replica& replica) {
  const Values weights = replica.weights();
  if (!model_) model_.emplace(weights, weights.count());
  Talk talk = start({Wants::rest, 0, pushes_}, nothing_like(weights), model_->values());
  finish(talk);
  resting_ = true;
}

bool Central::fetch_model(Values model) {
  if (resting_) {
    copy(model.bytes(), model_->values().bytes());
    proof_.expect("model at rest", model, {{1, pulled_}});
    return true;
  }
  Talk talk = start({Wants::model}, nothing_like(model), model);
  finish(talk);
  return true;
}

// Jobs run one after the other, so a server hears this worker in the order in which it speaks.
Central::Talk Central::start(const CentralRequest& request, Values pushed, Values into,
                             std::shared_ptr<const void> memory) {
  auto messages = request.brings ? encode(pushed, true) : std::make_shared<const Pushed>();
  return start(request, std::move(messages), pushed, into, std::move(memory));
}

Central::Talk Central::start(const CentralRequest& request, std::shared_ptr<const Pushed> messages,
                             Values pushed, Values into, std::shared_ptr<const void> memory) {
  if (!shared_) shared_ = std::make_shared<Shared>(crew_, proof_, crew_.rank.clock);
  // By server, of the numbers as they are now: what has changed when they are sent shows.
  std::vector<Projection> proofs;
  for (int k = 0; proof_.on() && request.brings && k < crew_.servers; ++k) {
    const Slice shard = crew_.shard(k, pushed.count());
    proofs.push_back(proof_.of(pushed.part(shard), shard.begin));
    book_.pushed(proofs.back());
  }
  Talk talk{0, request.wants, std::make_shared<CentralAnswer>()};
  if (talks_ == Talks::here) {
    *talk.answer = Questions(crew_.rank.peers, crew_, *messages).ask(request, into, proofs, proof_);
    return talk;
  }
  talk.job = crew_.rank.background.post([shared = shared_, answer = talk.answer, request, messages,
                                         into, proofs = std::move(proofs),
                                         memory = std::move(memory)](Transport& lane) {
    const double since = shared->clock.now();
    *answer = Questions(lane, shared->crew, *messages).ask(request, into, proofs, shared->proof);
    shared->talked_s += shared->clock.now() - since;
  });
  return talk;
}

std::shared_ptr<const Pushed> Central::encode(Values numbers, bool in_turn) {
  auto pushed = std::make_shared<Pushed>(crew_.servers);
  note_memories(&OfMemory::before);
  for (int k = 0; k < crew_.servers; ++k) {
    const Slice shard = crew_.shard(k, numbers.count());
    const Values here = numbers.part(shard);
    for (const Slice part : parts_of_push(shard.count, in_turn && takes_turns(*code_, here)))
      (*pushed)[k].push_back(encoded(*code_, here.part(part), shard.begin + part.begin));
  }
  note_memories(&OfMemory::after);
  return pushed;
}

std::shared_ptr<const Pushed> Central::encode_part(Values part, std::size_t first,
                                                   std::size_t count) {
  auto pushed = std::make_shared<Pushed>(crew_.servers);
  for (int k = 0; k < crew_.servers; ++k) {
    const Slice here = common(crew_.shard(k, count), {first, part.count()});
    if (here.count > 0)
      (*pushed)[k].push_back(
          encoded(*code_, part.part({here.begin - first, here.count}), here.begin));
  }
  return pushed;
}

// What the code adds of its memories and keeps in them is part of what is pushed.
void Central::note_memories(double OfMemory::*factor) {
  if (!proof_.on()) return;
  const std::vector<Kept> memories = code_->memories();
  for (const OfMemory& of : code_->stated())
    book_.owes({{of.*factor, proof_.of(memories[of.which].values, memories[of.which].first)}});
  book_.may_lose(code_->holds());
}

void Central::open_push(double share) {
  resting_ = false;
  note_memories(&OfMemory::before);
  fed_->open(count_push(), share);
}

void Central::finish_push_and_pull(const Step& step, Values into) {
  const std::uint32_t number = fed_->finish();
  book_.owes({{fed_->share(), fed_->proof()}});
  note_memories(&OfMemory::after);
  Talk talk = start({Wants::weights, number, step.number},
                    std::make_shared<const Pushed>(crew_.servers), fed_->numbers(), into);
  finish(talk);
}

Central::Talk Central::start(const Step& step, Wants wants, Values pushed, Values into,
                             std::shared_ptr<const void> memory) {
  resting_ = false;
  const std::uint32_t brings = pushed.count() > 0 ? count_push() : 0;
  return start({wants, brings, step.number}, pushed, into, std::move(memory));
}

void Central::finish(Talk& talk) {
  if (!talk.answer) return;
  if (talk.job > 0) {
    const double since = crew_.rank.clock.now();
    crew_.rank.background.wait(talk.job);
    blocked_s_ += crew_.rank.clock.now() - since;
  }
  const CentralAnswer answer = *std::exchange(talk.answer, nullptr);
  was_held_back(answer.held_s);
  if (talk.wants == Wants::weights) book_.arrived();
  if (talk.wants == Wants::weights || talk.wants == Wants::rest) pulled_ = answer.proof;
}

void Central::push(const Step& step, Values pushed) {
  Talk talk = start(step, Wants::nothing, pushed, nothing_like(pushed));
  finish(talk);
}

void Central::pull(const Step& step, Values into) { push_and_pull(step, nothing_like(into), into); }

void Central::push_and_pull(const Step& step, Values pushed, Values into) {
  Talk talk = start(step, Wants::weights, pushed, into);
  finish(talk);
}

Central::Talk Central::start_push(const Step& step, std::shared_ptr<Scratch> pushed) {
  const Values values = pushed->values();
  return start(step, Wants::nothing, values, nothing_like(values), std::move(pushed));
}

Central::Talk Central::start_pull(const Step& step, std::shared_ptr<Scratch> into) {
  const Values values = into->values();
  return start(step, Wants::weights, nothing_like(values), values, std::move(into));
}

void Central::step_with(Replica& replica, const Push& push) {
  const Values gradients = replica.gradients().part(push.shard);
  const bool landed_there = push.values.bytes().data == gradients.bytes().data;
  if (!landed_there) copy(gradients.bytes(), push.values.bytes());
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
