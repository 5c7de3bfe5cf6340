#include "strategies/central_client.h"

#include <algorithm>
#include <limits>

#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

template <class F>
void CentralClient::or_cancel(F&& call) {
  std::exception_ptr failure;
  try {
    call();
  } catch (const std::exception&) {
    failure = std::current_exception();  // what follows may pass time, which no handler must
  }
  if (!failure) return;
  cancel_all();
  std::rethrow_exception(failure);
}

void CentralClient::ask(const CentralRequest& request, Values pushed, Values into) {
  CentralRequest numbered = request;
  if (request.brings) numbered.brings = ++pushed_;
  if (request.wants == Wants::rest) numbered.step = pushed_;
  requests_.assign(crew_.servers, numbered);
  awaits_weights_ = request.wants == Wants::weights;
  count_ = std::max(pushed.count(), into.count());
  or_cancel([&] {
    post(request, pushed, into);
    send_in_turn();
    for (const Request sent : sent_) crew_.rank.peers.wait(sent);
  });
  sent_.clear();
}

void CentralClient::post(const CentralRequest& request, Values pushed, Values into) {
  Transport& peers = crew_.rank.peers;
  const Purpose purpose = request.wants == Wants::weights ? Purpose::weights : Purpose::evaluation;
  open_.reserve(crew_.servers);
  Projection all;
  // Each worker begins with another server, so that not all push to the same one first.
  for (int i = 1; i <= crew_.servers; ++i) {
    const int k = (crew_.rank.rank() + i) % crew_.servers, server = crew_.rank_of_server(k);
    if (request.wants != Wants::nothing) {
      const Values part = into.part(shard(k));
      Open& open = open_.emplace_back(Open{{}, {}, {}, part, shard(k).begin});
      open.word = peers.recv(server, kCentralAnswer, bytes_of(open.answer));
      open.numbers = peers.recv(server, central_numbers(purpose, part), part.bytes());
    }
    const Values part = pushed.part(request.brings ? shard(k) : Slice{});
    if (request.brings) all += requests_[k].proof = proof_.of(part, shard(k).begin);
    sent_.push_back(peers.send(server, kCentralRequest, bytes_of(requests_[k])));
    if (!request.brings) continue;
    if (takes_turns(shard(k)))
      pushes_.push_back({k, peers.recv(server, kCentralTurn, {}), part});
    else
      send(k, part);
  }
  if (request.brings) book_.pushed(all);
}

void CentralClient::send_in_turn() {
  while (!pushes_.empty()) {
    std::vector<Request> turns;
    for (const Push& push : pushes_) turns.push_back(push.turn);
    const std::size_t whose = wait_any_while_they_live(crew_.rank.peers, turns);
    const Push push = pushes_[whose];
    pushes_.erase(pushes_.begin() + static_cast<std::ptrdiff_t>(whose));
    send(push.server, push.part);
  }
}

void CentralClient::send(int k, Values part) {
  Transport& peers = crew_.rank.peers;
  const int server = crew_.rank_of_server(k);
  sent_.push_back(peers.send(server, central_numbers(Purpose::gradients, part), part.bytes()));
}

CentralAnswer CentralClient::answer() {
  CentralAnswer all{std::numeric_limits<std::uint64_t>::max(), 0};
  or_cancel([&] {
    for (const Open& open : open_) {
      // A server may hold its answer back until others have taken their steps.
      wait_while_it_lives(crew_.rank.peers, open.word);
      wait_while_it_lives(crew_.rank.peers, open.numbers);
      const Term held[] = {{1, open.answer.proof}};
      proof_.expect("weights that a server held", open.into, held, open.first);
      all.proof += open.answer.proof;
      all.clock = std::min(all.clock, open.answer.clock);
      all.held_s = std::max(all.held_s, open.answer.held_s);
    }
  });
  open_.clear();
  if (awaits_weights_) book_.arrived();
  return all;
}

// What has ended already says so, which is all one wants.
void CentralClient::cancel_all() {
  const auto cancel = [&](Request request) {
    try {
      crew_.rank.peers.cancel(request);
    } catch (const std::exception&) {
    }
  };
  for (const Request sent : sent_) cancel(sent);
  for (const Push& push : pushes_) cancel(push.turn);
  for (const Open& open : open_) {
    cancel(open.word);
    cancel(open.numbers);
  }
  sent_.clear();
  pushes_.clear();
  open_.clear();
}

}  // namespace lockstep
