#include "strategies/central_client.h"

#include <algorithm>
#include <limits>

#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

CentralAnswer CentralClient::ask(Transport& lane, const CentralRequest& request, Values pushed,
                                 Values into, std::span<const Projection> proofs) {
  requests_.assign(crew_.servers, request);
  for (std::size_t k = 0; k < proofs.size(); ++k) requests_[k].proof = proofs[k];
  count_ = std::max(pushed.count(), into.count());
  CentralAnswer all;
  std::exception_ptr failure;
  try {
    post(lane, request, pushed, into);
    send_in_turn(lane);
    for (const Request sent : sent_) lane.wait(sent);
    sent_.clear();
    all = answer(lane);
  } catch (const std::exception&) {
    failure = std::current_exception();  // what follows may pass time, which no handler must
  }
  if (!failure) return all;
  cancel_all(lane);
  std::rethrow_exception(failure);
}

void CentralClient::post(Transport& lane, const CentralRequest& request, Values pushed,
                         Values into) {
  const bool goes_on = request.wants == Wants::weights;
  const Purpose purpose = goes_on ? Purpose::weights : Purpose::evaluation;
  open_.reserve(crew_.servers);
  // Each worker begins with another server, so that not all push to the same one first.
  for (int i = 1; i <= crew_.servers; ++i) {
    const int k = (lane.rank() + i) % crew_.servers, server = crew_.rank_of_server(k);
    if (request.wants != Wants::nothing) {
      const Values part = into.part(shard(k));
      Open& open = open_.emplace_back(Open{{}, {}, {}, part, shard(k).begin});
      open.word =
          lane.recv(server, goes_on ? kCentralAnswer : kCentralModel, bytes_of(open.answer));
      open.numbers = lane.recv(server, central_numbers(purpose, part), part.bytes());
    }
    const Values part = pushed.part(request.brings ? shard(k) : Slice{});
    sent_.push_back(lane.send(server, kCentralRequest, bytes_of(requests_[k])));
    if (!request.brings) continue;
    if (takes_turns(shard(k)))
      pushes_.push_back({k, lane.recv(server, kCentralTurn, {}), part});
    else
      send(lane, k, part);
  }
}

void CentralClient::send_in_turn(Transport& lane) {
  while (!pushes_.empty()) {
    std::vector<Request> turns;
    for (const Push& push : pushes_) turns.push_back(push.turn);
    const std::size_t whose = wait_any_while_they_live(lane, turns);
    const Push push = pushes_[whose];
    pushes_.erase(pushes_.begin() + static_cast<std::ptrdiff_t>(whose));
    send(lane, push.server, push.part.part(first_of_push(shard(push.server))));
    send(lane, push.server, push.part.part(rest_of_push(shard(push.server))));
  }
}

void CentralClient::send(Transport& lane, int k, Values part) {
  const int server = crew_.rank_of_server(k);
  sent_.push_back(lane.send(server, central_numbers(Purpose::gradients, part), part.bytes()));
}

CentralAnswer CentralClient::answer(Transport& lane) {
  CentralAnswer all{std::numeric_limits<std::uint64_t>::max()};
  for (const Open& open : open_) {
    // A server may hold its answer back until others have taken their steps.
    wait_while_it_lives(lane, open.word);
    wait_while_it_lives(lane, open.numbers);
    const Term held[] = {{1, open.answer.proof}};
    proof_.expect("weights that a server held", open.into, held, open.first);
    all.proof += open.answer.proof;
    all.clock = std::min(all.clock, open.answer.clock);
    all.held_s = std::max(all.held_s, open.answer.held_s);
  }
  open_.clear();
  return all;
}

// What has ended already says so, which is all one wants.
void CentralClient::cancel_all(Transport& lane) {
  const auto cancel = [&](Request request) {
    try {
      lane.cancel(request);
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
