#include "strategies/servers/central_server.h"

#include <algorithm>
#include <utility>

#include "strategies/audit/watched_replica.h"
#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

namespace {
// How long a push waits for weights that a worker of this host is copying.
constexpr double kLentSeconds = 1;
}  // namespace

CentralServer::CentralServer(const Crew& crew, const MixAudit& proof, const PushCode& code,
                             CentralRule& rule, const Counts& counts)
    : crew_(crew),
      proof_(proof),
      code_(code),
      rule_(rule),
      clients_(crew.workers),
      updates_(counts.at(0)) {
  for (int w = 0; w < crew_.workers; ++w) clients_[w].seen = counts.at(1 + w);
}

CentralServer::Counts CentralServer::counts() const {
  Counts counts{updates_};
  for (const Client& client : clients_) counts.push_back(client.seen);
  return counts;
}

void CentralServer::serve(Transport& lane, Replica& replica, std::uint64_t first) {
  struct Dropping {  // the lane may not outlive this call
    std::vector<Client>& clients;
    ~Dropping() {
      for (Client& client : clients) client.drop();
    }
  } const at_the_end{clients_};
  lane_ = &lane;
  shard_ = crew_.shard(lane.rank() - crew_.workers, replica.weights().count());
  // Pushes that are opened while workers compute come several at once.
  in_place_ = rule_.works_in_place() && rule_.gives_turns() && !crew_.push_buckets &&
              takes_turns(code_, replica.weights().part(shard_));
  for (int w = 0; w < crew_.workers; ++w) in_place_ &= lane.host_of(w) == lane.host_of(lane.rank());
  rule_.start(first);
  for (int w = 0; w < crew_.workers; ++w) {
    clients_[w].rests = false;
    if (clients_[w].active()) await_request(w);
  }
  while (anyone_active()) turn(replica);
  give_to_all_that_rest(replica);
}

void CentralServer::Client::drop() {
  receive.give_up();
  told.give_up();
  for (Gift& gift : gifts) gift.sends.clear();
  questions.clear();
}

bool CentralServer::anyone_active() const {
  return std::ranges::any_of(clients_, [](const Client& c) { return c.active(); });
}

void CentralServer::await_request(int worker) {
  Client& client = clients_[worker];
  client.brings = false;
  client.tells_plan = false;
  client.receive = lane_->recv(worker, kCentralRequest, bytes_of(client.request));
}

void CentralServer::turn(Replica& replica) {
  std::vector<Request> open;
  std::vector<int> whose;
  // What has left makes room for the next.
  for (int w = 0; w < crew_.workers; ++w)
    for (const Gift& gift : clients_[w].gifts)
      for (const Pending& send : gift.sends) {
        open.push_back(send.request());
        whose.push_back(w);
      }
  const std::size_t sends = open.size();
  // From the one after whom was served last, so that nobody starves.
  for (int i = 0; i < crew_.workers; ++i) {
    const int w = (next_ + i) % crew_.workers;
    if (!clients_[w].active()) continue;
    open.push_back(clients_[w].receive.request());
    whose.push_back(w);
  }
  const bool idle = std::ranges::none_of(
      clients_, [](const Client& client) { return client.active() && client.brings; });
  const double since = crew_.rank.clock.now();
  const Ending ending = wait_any_while_they_live(*lane_, open);
  const int w = whose[ending.index];
  if (idle && ending.arrived()) waited_s_ += crew_.rank.clock.now() - since;
  if (ending.gone()) {
    lose(replica, w, *ending.failure);
  } else if (ending.index < sends) {
    for (Gift& gift : clients_[w].gifts)
      std::erase_if(gift.sends, [&](const Pending& send) { return send.is(open[ending.index]); });
  } else {
    clients_[w].receive.ended();
    next_ = (w + 1) % crew_.workers;
    arrived(replica, w, ending.arrival);
  }
  give_turns();
  answer_held(replica);
}

void CentralServer::give_turns() {
  const auto has_turn = [](const Client& client) { return client.has_turn; };
  while (!queue_.empty() && std::ranges::none_of(clients_, has_turn)) {
    const int worker = queue_.front();
    queue_.erase(queue_.begin());
    Client& client = clients_[worker];
    client.has_turn = true;
    client.told = lane_->send(worker, kCentralTurn, {});
  }
}

void CentralServer::arrived(Replica& replica, int worker, const Arrival& arrival) {
  Client& client = clients_[worker];
  const auto require = [&](bool as_expected, std::size_t expected) {
    if (!as_expected)
      throw TransportError(TransportError::Kind::mismatch, lane_->job_rank(worker),
                           fmt::format("worker {} sent {} bytes to a server that expects {}: all "
                                       "ranks must train the same network with the same strategy",
                                       worker, arrival.bytes, expected));
  };
  if (client.asks) {
    require(arrival.bytes == sizeof(CentralTurn), sizeof(CentralTurn));
    return asked(replica, worker);
  }
  if (client.brings) {
    const Slice part = client.coming.front().slice;
    const Values into = numbers_of(replica, worker).part(part);
    const Bytes landed = code_.landing(into, client.memory).part(0, arrival.bytes);
    require(code_.decode(landed, shard_.begin + part.begin, into), code_.most_bytes(into));
    client.coming.erase(client.coming.begin());
    if (client.in_turn > 0) --client.in_turn;
    if (!in_place_ && client.in_turn <= 1) client.has_turn = false;
    if (client.told) {
      const Ending told = lane_->ending(client.told, lane_->patience());
      if (told.gone()) return lose(replica, worker, *told.failure);
      told.or_throw();
    }
    if (client.opened || !client.coming.empty()) return await_numbers(replica, worker);
    await_lent(replica);
    apply(replica, worker);
  } else {
    const std::size_t expected = client.tells_plan ? client.next_plan.size() * sizeof(std::uint64_t)
                                                   : sizeof(CentralRequest);
    require(arrival.bytes == expected, expected);
    if (opened(replica, worker)) return;
    if (client.request.brings) {
      client.brings = true;
      const bool in_turn =
          rule_.gives_turns() && takes_turns(code_, replica.weights().part(shard_));
      if (in_turn) queue_.push_back(worker);
      if (!in_place_ && !client.pushed) client.pushed.emplace(replica.weights(), shard_.count);
      client.coming.clear();
      for (const Slice part : parts_of_push(shard_.count, in_turn)) client.coming.push_back({part});
      return await_numbers(replica, worker);
    }
  }
  act(replica, worker);
}

Values CentralServer::numbers_of(Replica& replica, int worker) {
  return in_place_ ? replica.gradients().part(shard_) : clients_[worker].pushed->values();
}

bool CentralServer::opened(Replica& replica, int worker) {
  Client& client = clients_[worker];
  if (client.opened && !client.tells_plan) {  // the word that ends it
    if (client.request.brings != std::exchange(client.opened, 0))
      throw TransportError(
          TransportError::Kind::mismatch, lane_->job_rank(worker),
          fmt::format("worker {} ends push {} of its own where it has opened another", worker,
                      client.request.brings));
    apply(replica, worker);
    act(replica, worker);
    return true;
  }
  if (client.tells_plan) {
    client.tells_plan = false;
    client.plan = client.next_plan;
  } else if (client.request.wants == Wants::opens) {
    client.opened = client.request.brings;
    if (!client.pushed) client.pushed.emplace(replica.weights(), shard_.count);
    if (client.request.step > 0) {
      await_plan(worker, std::min<std::uint64_t>(client.request.step, replica.parameters().size()));
      return true;
    }
  } else {
    return false;
  }
  client.brings = true;
  client.coming = pieces_by_plan(worker, replica.weights());
  await_numbers(replica, worker);
  return true;
}

void CentralServer::await_plan(int worker, std::uint64_t buckets) {
  Client& client = clients_[worker];
  client.tells_plan = true;
  client.next_plan.assign(buckets, 0);
  client.receive = lane_->recv(
      worker, kCentralPlan,
      {reinterpret_cast<std::byte*>(client.next_plan.data()), buckets * sizeof(std::uint64_t)});
}

std::vector<CentralServer::Piece> CentralServer::pieces_by_plan(int worker, Values numbers) const {
  std::vector<Piece> pieces;
  const std::size_t count = numbers.count();
  std::size_t end = count;
  for (const std::uint64_t in_bucket : clients_[worker].plan) {
    if (in_bucket > end) break;
    end -= in_bucket;
    const Slice here = common({end, in_bucket}, shard_);
    if (here.count == 0) continue;
    const bool waits = rule_.gives_turns() && takes_turns(code_, numbers.part(here));
    for (const Slice piece : parts_of_push(here.count, waits))
      pieces.push_back({{here.begin - shard_.begin + piece.begin, piece.count}, waits});
  }
  if (end > 0)
    throw TransportError(TransportError::Kind::mismatch, lane_->job_rank(worker),
                         fmt::format("worker {} cuts its push so that {} of {} numbers are left: "
                                     "all ranks must train the same network",
                                     worker, end, count));
  return pieces;
}

void CentralServer::asked(Replica& replica, int worker) {
  Client& client = clients_[worker];
  client.asks = false;
  if (client.in_turn < 1 || client.in_turn > client.coming.size())
    throw TransportError(TransportError::Kind::mismatch, lane_->job_rank(worker),
                         fmt::format("worker {} asks for its turn to send {} messages, and 1 to {} "
                                     "are left of its push",
                                     worker, client.in_turn, client.coming.size()));
  queue_.push_back(worker);
  await_numbers(replica, worker);
}

void CentralServer::await_numbers(Replica& replica, int worker) {
  Client& client = clients_[worker];
  if (client.coming.empty()) return await_request(worker);
  if (client.coming.front().waits && client.in_turn == 0) {
    client.asks = true;
    client.receive = lane_->recv(worker, kCentralTurn, bytes_of(client.in_turn));
    return;
  }
  const Values into = numbers_of(replica, worker).part(client.coming.front().slice);
  const Tag tag = Tag{Purpose::gradients}.with_format(code_.format(into));
  client.receive = lane_->recv(worker, tag, code_.landing(into, client.memory));
}

void CentralServer::apply(Replica& replica, int worker) {
  Client& client = clients_[worker];
  ++client.pushes;
  const CentralRule::Push push{worker,
                               client.request.step,
                               shard_,
                               numbers_of(replica, worker),
                               client.request.proof,
                               client.request.stamp,
                               updates_,
                               updates_ - client.seen};
  due_.push_back({1, push.proof});
  client.brought += push.proof;
  if (audited(replica, [&](Replica& watched) { return rule_.apply(watched, push); })) ++updates_;
  client.has_turn = false;
}

bool CentralServer::audited(Replica& replica, const std::function<bool(Replica&)>& change) {
  if (!proof_.on()) {
    due_.clear();
    return change(replica);
  }
  const Values weights = replica.weights().part(shard_);
  const auto of = [&](Values values, Slice part) {
    return proof_.of(values.part(part), part.begin);
  };
  const Projection before = proof_.of(weights, shard_.begin);
  if (weights_ && before != *weights_) proof_.fail("a server's weights changed by themselves");
  std::size_t stepped = 0;
  Projection with, from, to;
  WatchedReplica watched(
      replica,
      [&](Slice part, double) {
        with += of(replica.gradients(), part);
        from += of(replica.weights(), part);
      },
      [&](Slice part, double) {
        to += of(replica.weights(), part);
        stepped += part.count;
      });
  const bool changed = change(watched);
  weights_ = proof_.of(weights, shard_.begin);
  const std::size_t due = changed && rule_.steps() ? shard_.count : 0;
  if (stepped != due)
    proof_.fail("a server's optimiser stepped {} parameters where {} were due", stepped, due);
  std::vector<Term> expected{{1, before}};
  if (rule_.steps()) {
    if (changed) proof_.expect("gradient that a server stepped with", with, due_, shard_.count);
    expected.insert(expected.end(), {{1, to}, {-1, from}});
  } else if (changed) {
    expected.insert(expected.end(), due_.begin(), due_.end());
  }
  proof_.expect("weights of a server", *weights_, expected, shard_.count);
  if (changed) due_.clear();
  return changed;
}

void CentralServer::check_pushes(const Client& client, std::uint64_t told) const {
  if (proof_.on() && client.pushes != told)
    proof_.fail("a worker has pushed {} times, and {} of that were applied", told, client.pushes);
}

void CentralServer::act(Replica& replica, int worker) {
  Client& client = clients_[worker];
  const Wants wants = client.request.wants;
  if (client.request.brings) check_pushes(client, client.request.brings);
  if (wants == Wants::rest) {
    client.rests = true;
    check_pushes(client, client.request.step);
    audited(replica, [&](Replica& watched) { return rule_.rests(watched, worker); });
    return;
  }
  if (wants == Wants::weights) client.questions.push_back({client.request.oldest});
  await_request(worker);
  if (wants == Wants::model) give(worker, {}, replica.weights().part(shard_), Purpose::evaluation);
}

void CentralServer::answer_held(Replica& replica) {
  const double now = crew_.rank.clock.now();
  for (int w = 0; w < crew_.workers; ++w) {
    Client& client = clients_[w];
    std::deque<Question>& questions = client.questions;
    while (client.active() && !questions.empty() && rule_.may_read(w, questions.front().oldest)) {
      const double since = questions.front().held_since.value_or(now);
      questions.pop_front();
      client.seen = updates_;
      const CentralAnswer answer{rule_.clock(), client.pushes, now - since};
      give(w, answer, replica.weights().part(shard_), Purpose::weights);
    }
    for (Question& question : questions)
      if (!question.held_since) question.held_since = now;
  }
}

void CentralServer::give(int worker, const CentralAnswer& answer, Values weights, Purpose purpose) {
  std::list<Gift>& gifts = clients_[worker].gifts;
  auto gift = std::ranges::find_if(gifts, [](const Gift& g) { return g.sends.empty(); });
  if (gift == gifts.end()) gift = gifts.insert(gift, Gift{});
  if (!in_place_ && !gift->given) gift->given.emplace(weights, weights.count());
  const Values given = in_place_ ? weights : gift->given->values();
  if (!in_place_) copy(given.bytes(), weights.bytes());
  gift->answer = answer;
  gift->answer.proof = proof_.of(weights, shard_.begin);
  gift->answer.own = clients_[worker].brought;
  if (weights_ && gift->answer.proof != *weights_)
    proof_.fail("a server's weights changed by themselves");
  const Tag word = purpose == Purpose::weights ? kCentralAnswer : kCentralModel;
  gift->sends.push_back(lane_->send(worker, word, bytes_of(gift->answer)));
  gift->tag = central_numbers(purpose, given);
  gift->sends.push_back(lane_->send(worker, gift->tag, given.bytes()));
  gift->lent = in_place_ ? gift->sends.back().request() : Request{};
}

// A worker that asks waits for its answer, so this takes as long as a copy does. Whoever is stopped
// meanwhile is no concern of the others: it gets a copy.
void CentralServer::await_lent(Replica& replica) {
  for (int w = 0; w < crew_.workers; ++w)
    for (Gift& gift : clients_[w].gifts) {
      const auto numbers =
          std::ranges::find_if(gift.sends, [&](const Pending& send) { return send.is(gift.lent); });
      if (numbers == gift.sends.end()) continue;
      const Ending ending = lane_->ending(*numbers, {lane_->now() + kLentSeconds});
      if (ending.gone()) {
        lose(replica, w, *ending.failure);
        break;
      }
      const bool again = ending.late() && lane_->give_up(gift.lent);
      numbers->ended();
      if (again) {
        const Values weights = replica.weights().part(shard_);
        if (!gift.given) gift.given.emplace(weights, weights.count());
        copy(gift.given->values().bytes(), weights.bytes());
        *numbers = lane_->send(w, gift.tag, gift.given->values().bytes());
      } else {
        gift.sends.erase(numbers);
      }
    }
}

void CentralServer::give_to_all_that_rest(Replica& replica) {
  for (int w = 0; w < crew_.workers; ++w) {
    Client& client = clients_[w];
    if (client.gone) continue;
    if (rule_.reads_at_rest()) client.seen = updates_;
    give(w, {}, replica.weights().part(shard_), Purpose::evaluation);
  }
  for (int w = 0; w < crew_.workers; ++w)
    for (Gift& gift : clients_[w].gifts)
      while (!gift.sends.empty()) {
        const Ending ending = lane_->ending(gift.sends.back(), lane_->patience());
        if (ending.gone()) {
          lose(replica, w, *ending.failure);
          break;
        }
        ending.or_throw();
        gift.sends.pop_back();
      }
}

void CentralServer::lose(Replica& replica, int worker, const TransportError& e) {
  // A worker may have left because of another rank, which the error then names. If that is a server
  // a part of the model is lost: then all stops.
  bool blames_worker = false;
  for (int w = 0; w < crew_.workers; ++w) blames_worker |= lane_->job_rank(w) == e.peer();
  if (!blames_worker) throw e;
  clients_[worker].drop();
  clients_[worker].gone = true;
  clients_[worker].has_turn = false;
  std::erase(queue_, worker);
  rule_.gone(replica, worker, e);
}

}  // namespace lockstep
