#include "strategies/gossip_mail.h"

#include <algorithm>

#include "transport/patient.h"

namespace lockstep {
namespace {

// An empty head: its sender has come to rest. On one tag, so that all it sent before comes before.
constexpr Tag kHead{Purpose::weights, 0}, kWeights{Purpose::weights, 1};

}  // namespace

std::uint64_t GossipHead::steps_from(std::uint64_t step) const {
  const auto apart = static_cast<std::uint16_t>(step - mass_and_step);
  return std::min(apart, static_cast<std::uint16_t>(-apart));
}

GossipMail::GossipMail(const Rank& rank, Values weights, bool with_proofs)
    : lane_(rank.peers),
      head_bytes_(with_proofs ? sizeof(GossipHead) : sizeof(std::uint64_t)),
      gone_(rank.size()),
      rests_(rank.size()),
      inbox_(weights, weights.count()) {}

// The buffers go: no transport may use them any more.
GossipMail::~GossipMail() {
  if (coming_) give_up(coming_->x);
  for (const Sending& sending : sending_) {
    give_up(sending.x_sent);
    give_up(sending.head_sent);
  }
}

void GossipMail::give_up(Request request) const {
  try {
    lane_.cancel(request);
  } catch (const std::exception&) {  // it has ended
  }
}

// Does something with a peer. False: that one is gone.
template <class F>
bool GossipMail::talk(int peer, F&& f) {
  try {
    f();
    return true;
  } catch (const TransportError& e) {
    if (!e.is_gone()) throw;
    gone_[peer] = true;
    return false;
  }
}

void GossipMail::take_what_is_here(const Take& take) {
  while (take_next(take)) {
  }
}

// False: nothing is here, or not all of it yet.
bool GossipMail::take_next(const Take& take) {
  if (coming_) return land(take, false);
  const auto head = lane_.probe(kAnyRank, kHead);
  if (!head) return false;
  talk(head->from, [&] { open_next(head->from); });
  return !coming_ || land(take, false);
}

// The head of that peer's next message: it is here, or it is waited for.
void GossipMail::open_next(int peer) {
  const Request request = lane_.recv(peer, kHead, bytes_of(head_).part(0, head_bytes_));
  rests_[peer] = wait_while_it_lives(lane_, request).bytes == 0;
  const Values x = inbox_.values();
  if (!rests_[peer])
    coming_ = {peer, lane_.recv(peer, kWeights.with_format(x.format()), x.bytes())};
}

// Takes the message that is coming. False: not all of it is here yet.
bool GossipMail::land(const Take& take, bool wait) {
  bool here = false;
  const bool still_there = talk(coming_->from, [&] {
    if (wait) wait_while_it_lives(lane_, coming_->x);
    here = wait || lane_.test(coming_->x);
  });
  if (!here && still_there) return false;
  const int from = coming_->from;
  coming_.reset();
  if (here) take(from, head_, inbox_.values());
  return true;
}

std::vector<int> GossipMail::others() {
  for (const int dead : lane_.dead_peers()) gone_[dead] = true;
  std::vector<int> living;
  for (int peer = 0; peer < lane_.size(); ++peer)
    if (is_other(peer)) living.push_back(peer);
  return living;
}

bool GossipMail::is_free(int to) {
  collect_sent(false);
  return std::ranges::find(sending_, to, &Sending::to) == sending_.end();
}

void GossipMail::send(int to, const GossipHead& head, Values x) {
  if (idle_.empty()) idle_.push_back({to, {}, Scratch(x, x.count())});
  sending_.splice(sending_.end(), idle_, idle_.begin());
  Sending& sending = sending_.back();
  sending.to = to;
  sending.head = head;
  copy(sending.x.values().bytes(), x.bytes());
  sending.head_sent = lane_.send(to, kHead, bytes_of(sending.head).part(0, head_bytes_));
  sending.x_sent = lane_.send(to, kWeights.with_format(x.format()), sending.x.values().bytes());
}

// The memory of what has left is used again. `wait`: until all has.
void GossipMail::collect_sent(bool wait) {
  for (auto it = sending_.begin(); it != sending_.end();) {
    const auto sending = it++;
    bool x_sent = false, head_sent = false;
    const bool still_there = talk(sending->to, [&] {
      if (wait) wait_while_it_lives(lane_, sending->x_sent);
      x_sent = wait || lane_.test(sending->x_sent);
      if (x_sent) lane_.wait(sending->head_sent);  // went ahead
      head_sent = x_sent;
    });
    if (!x_sent && still_there) continue;
    if (!head_sent) give_up(sending->head_sent);
    idle_.splice(idle_.end(), sending_, sending);
  }
}

void GossipMail::rest(const Take& take) {
  for (int peer = 0; peer < lane_.size(); ++peer)
    if (is_other(peer))
      talk(peer, [&] { wait_while_it_lives(lane_, lane_.send(peer, kHead, {})); });
  if (coming_) land(take, true);
  for (int peer = 0; peer < lane_.size(); ++peer)
    while (is_other(peer) && !rests_[peer]) {
      talk(peer, [&] { open_next(peer); });
      if (coming_) land(take, true);
    }
  collect_sent(true);
  rests_.assign(rests_.size(), false);
}

}  // namespace lockstep
