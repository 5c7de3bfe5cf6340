#include "strategies/servers/central_client.h"

#include <algorithm>
#include <limits>

#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

CentralAnswer CentralClient::ask(Transport& lane, const CentralRequest& request,
                                 const Pushed& pushed, Values into,
                                 std::span<const Projection> proofs) {
  Talk talk{lane, pushed, {}, {}, {}, {}};
  talk.requests.assign(crew_.servers, request);
  for (std::size_t k = 0; k < proofs.size(); ++k) talk.requests[k].proof = proofs[k];
  post(talk, request, into);
  send_in_turn(talk);
  for (Pending& sent : talk.sent) lane.wait(sent);
  return answer(talk);
}

void CentralClient::post(Talk& talk, const CentralRequest& request, Values into) const {
  Transport& lane = talk.lane;
  const bool goes_on = request.wants == Wants::weights;
  const Purpose purpose = goes_on ? Purpose::weights : Purpose::evaluation;
  talk.open.reserve(crew_.servers);  // so that answers stay where they land
  // Each worker begins with another server, so that not all push to the same one first.
  for (int i = 1; i <= crew_.servers; ++i) {
    const int k = (lane.rank() + i) % crew_.servers, server = crew_.rank_of_server(k);
    if (request.wants != Wants::nothing) {
      const Slice shard = server_shard(crew_, k, into.count());
      const Values part = into.part(shard);
      Open& open = talk.open.emplace_back(Open{{}, part, shard.begin, {}, {}});
      open.word =
          lane.recv(server, goes_on ? kCentralAnswer : kCentralModel, bytes_of(open.answer));
      open.numbers = lane.recv(server, central_numbers(purpose, part), part.bytes());
    }
    talk.sent.push_back(lane.send(server, kCentralRequest, bytes_of(talk.requests[k])));
    if (!request.brings) continue;
    if (talk.pushed[k].size() > 1)
      talk.pushes.push_back({k, lane.recv(server, kCentralTurn, {})});
    else
      send(talk, k);
  }
}

void CentralClient::send_in_turn(Talk& talk) const {
  while (!talk.pushes.empty()) {
    std::vector<Request> turns;
    for (const Push& push : talk.pushes) turns.push_back(push.turn.request());
    const Ending ending = wait_any_while_they_live(talk.lane, turns);
    ending.or_throw();
    const auto whose = talk.pushes.begin() + static_cast<std::ptrdiff_t>(ending.index);
    const int server = whose->server;
    talk.pushes.erase(whose);
    send(talk, server);
  }
}

void CentralClient::send(Talk& talk, int k) const {
  for (const PushMessage& part : talk.pushed[k])
    talk.sent.push_back(talk.lane.send(crew_.rank_of_server(k), part.tag, part.bytes));
}

CentralAnswer CentralClient::answer(Talk& talk) const {
  CentralAnswer all{std::numeric_limits<std::uint64_t>::max()};
  for (Open& open : talk.open) {
    // A server may hold its answer back until others have taken their steps.
    wait_while_it_lives(talk.lane, open.word);
    wait_while_it_lives(talk.lane, open.numbers);
    const Term held[] = {{1, open.answer.proof}};
    proof_.expect("weights that a server held", open.into, held, open.first);
    all.proof += open.answer.proof;
    all.clock = std::min(all.clock, open.answer.clock);
    all.held_s = std::max(all.held_s, open.answer.held_s);
  }
  return all;
}

}  // namespace lockstep
