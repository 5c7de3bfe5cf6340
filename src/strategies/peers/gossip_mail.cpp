#include "strategies/peers/gossip_mail.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "strategies/add_scaled.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

// An empty head: its sender has come to rest. On one tag, so that all it sent before comes before.
constexpr Tag kHead = channels::kGossipHead, kWeights = channels::kGossipWeights;

// The mean by masses, as x + share (x_s - x): who agrees goes on agreeing, to the bit. Writes to
// x_s.
void merge(Values x, std::uint64_t mass, Values x_s, std::uint64_t mass_s) {
  const double a = static_cast<double>(mass), a_s = static_cast<double>(mass_s);
  add_scaled(x_s, -1, x);
  add_scaled(x, a_s / (a + a_s), x_s);
}

// What that makes of two messages with these heads, by what their weights were: the audit does not
// look at the merged ones.
GossipHead merged(const GossipHead& first, const GossipHead& last) {
  const double a = static_cast<double>(first.mass()), b = static_cast<double>(last.mass());
  const Term mean[] = {{a / (a + b), first.proof}, {b / (a + b), last.proof}};
  return GossipHead::of(first.mass() + last.mass(), last.mass_and_step, sum_of(mean));
}

}  // namespace

std::uint64_t GossipHead::steps_from(std::uint64_t step) const {
  const auto apart = static_cast<std::uint16_t>(step - mass_and_step);
  return std::min(apart, static_cast<std::uint16_t>(-apart));
}

GossipMail::GossipMail(const Rank& rank, Values weights, std::unique_ptr<PushCode> code,
                       const MixAudit& proof)
    : peers_(rank.peers),
      clock_(rank.clock),
      lock_(rank.lock),
      proof_(proof),
      head_bytes_(proof.on() ? sizeof(GossipHead) : sizeof(std::uint64_t)),
      pattern_(weights),
      gone_(rank.size()),
      rests_(rank.size()),
      inbox_{.x = Scratch(weights, weights.count())},
      code_(std::move(code)),
      taken_{.x = Scratch(weights, weights.count())} {}

std::vector<int> GossipMail::others() {
  const std::vector<int> dead = peers_.dead_peers();
  const std::lock_guard hold(lock_);
  std::vector<int> training;
  for (int peer = 0; peer < peers_.size(); ++peer)
    if (peer != peers_.rank() && !gone_[peer] && !rests_[peer] &&
        !std::ranges::binary_search(dead, peer))
      training.push_back(peer);
  return training;
}

GossipMail::Outgoing GossipMail::idle_one() {
  if (idle_.empty()) return {0, {}, Scratch(pattern_, pattern_.count())};
  Outgoing one = std::move(idle_.front());
  idle_.pop_front();
  return one;
}

bool GossipMail::put(int to, const GossipHead& head, Values x) {
  const std::lock_guard hold(lock_);
  Outgoing out = idle_one();
  out.to = to;
  out.head = head;
  copy(out.x.values().bytes(), x.bytes());
  const auto is_for_it = [&](const Outgoing& other) { return other.to == to; };
  if (std::ranges::count_if(outbox_, is_for_it) < kMostQueued) {
    outbox_.push_back(std::move(out));
    return true;
  }
  const auto queued = std::find_if(outbox_.rbegin(), outbox_.rend(), is_for_it);
  merge(queued->x.values(), queued->head.mass(), out.x.values(), head.mass());
  queued->head = merged(queued->head, head);
  idle_.push_back(std::move(out));
  return false;
}

void GossipMail::received(int from, const GossipHead& head, Scratch& x) {
  const std::lock_guard hold(lock_);
  if (inbox_.parts.empty()) {
    std::swap(inbox_.x, x);
    inbox_.mass = head.mass();
  } else {
    merge(inbox_.x.values(), inbox_.mass, x.values(), head.mass());
    inbox_.mass += head.mass();
  }
  inbox_.parts.push_back({from, head});
}

GossipMail::Parcel* GossipMail::take() {
  taken_.parts.clear();
  {
    const std::lock_guard hold(lock_);
    if (!inbox_.parts.empty()) std::swap(inbox_, taken_);
  }
  return taken_.parts.empty() ? nullptr : &taken_;
}

void GossipMail::rest_when_sent() {
  const std::lock_guard hold(lock_);
  resting_ = true;
}

void GossipMail::go() {
  const std::lock_guard hold(lock_);
  resting_ = false;
  rests_.assign(rests_.size(), false);
}

double GossipMail::exchanging_s() {
  const std::lock_guard hold(lock_);
  return exchanging_s_;
}

Coding GossipMail::coding() {
  const std::lock_guard hold(lock_);
  return coding_;
}

// The job's side: what is open on the lane. No call on the lane is made under the lock.
class GossipMail::Job {
 public:
  Job(GossipMail& mail, Transport& lane)
      : mail_(mail),
        lane_(lane),
        landing_(mail.pattern_, mail.pattern_.count()),
        peers_(lane.size()) {}
  Job(const Job&) = delete;

  void run() {
    {
      const std::lock_guard hold(mail_.lock_);
      for (std::size_t peer = 0; peer < peers_.size(); ++peer)
        peers_[peer].gone = mail_.gone_[peer];
    }
    for (int peer = 0; peer < lane_.size(); ++peer)
      if (is_there(peer)) listen(peer);
    while (!over()) {
      take_orders();
      if (!over()) step();
    }
  }

 private:
  struct Sending {
    Outgoing out;
    PushMessage message;
    Pending head, x;
  };
  struct Peer {
    bool gone = false, rests = false;
    GossipHead head;  // what it says next lands here
    Pending heard;    // the receive of that
    Pending coming;
    std::optional<Sending> sending;
    Pending told;  // that this rank rests
  };

  bool is_there(int peer) const { return peer != lane_.rank() && !peers_[peer].gone; }

  // Goes on without a peer.
  void lose(int peer) {
    peers_[peer] = {};
    peers_[peer].gone = true;
    std::erase(here_, peer);
    {
      const std::lock_guard hold(mail_.lock_);
      mail_.gone_[peer] = true;
    }
    open_next();
  }

  void listen(int peer) {
    Peer& p = peers_[peer];
    p.heard = lane_.recv(peer, kHead, bytes_of(p.head).part(0, mail_.head_bytes_));
  }

  // The weights of one message at a time, in the order of their heads: so memory for one.
  void open_next() {
    if (here_.empty() || peers_[here_.front()].coming) return;
    const Values x = landing_.values();
    const PushCode& code = *mail_.code_;
    peers_[here_.front()].coming = lane_.recv(here_.front(), kWeights.with_format(code.format(x)),
                                              code.landing(x, landing_memory_));
  }

  bool over() const {
    if (mail_.abandoned_) return true;
    if (!said_rest_) return false;
    for (int peer = 0; peer < lane_.size(); ++peer) {
      const Peer& p = peers_[peer];
      if (is_there(peer) && (!p.rests || p.sending || p.told)) return false;
    }
    return true;
  }

  // What the rank's thread wants: sends, one a peer at a time, and in the end to rest.
  void take_orders() {
    while (take_some_orders()) {
    }
  }
  // True: some came back, so that there may be more to take.
  bool take_some_orders() {
    std::list<Outgoing> starting;
    bool rest = false, came_back = false;
    {
      const std::lock_guard hold(mail_.lock_);
      for (auto out = mail_.outbox_.begin(); out != mail_.outbox_.end();) {
        const auto one = out++;
        const bool is_first = std::ranges::find(starting, one->to, &Outgoing::to) == starting.end();
        if (is_first && !peers_[one->to].sending)
          starting.splice(starting.end(), mail_.outbox_, one);
      }
      resting_ = mail_.resting_;
      rest = resting_ && mail_.outbox_.empty() && !said_rest_;
    }
    for (Outgoing& out : starting) {
      const int to = out.to;
      if (!is_there(to)) {  // what has not left comes back
        mail_.received(lane_.rank(), out.head, out.x);
        came_back = true;
        continue;
      }
      Sending& s = peers_[to].sending.emplace(Sending{std::move(out), {}, {}, {}});
      encode(s);
      s.head = lane_.send(to, kHead, bytes_of(s.out.head).part(0, mail_.head_bytes_));
      s.x = lane_.send(to, kWeights.with_format(s.message.tag.format), s.message.bytes);
    }
    if (!rest) return came_back;
    said_rest_ = true;
    for (int peer = 0; peer < lane_.size(); ++peer)
      if (is_there(peer)) peers_[peer].told = lane_.send(peer, kHead, {});
    return false;
  }

  // The message, which may be off from the weights by what the code states; and the proof of what
  // it says, which is what is mixed in where it arrives.
  void encode(Sending& sending) {
    const Values x = sending.out.x.values();
    sending.message = encoded(*mail_.code_, x, 0);
    note_coding();
    const Holds holds = mail_.code_->holds();
    if (holds.how != Holds::How::within) return;
    const Projection said = mail_.proof_.of(x);
    const Term meant[] = {{1, sending.out.head.proof}};
    mail_.proof_.expect("weights that a message says", said, meant, x.count(), holds.by);
    sending.out.head.proof = said;
  }
  void decode(int peer, std::size_t bytes) {
    const Values x = landing_.values();
    const PushCode& code = *mail_.code_;
    if (!code.decode(code.landing(x, landing_memory_).part(0, bytes), 0, x))
      throw TransportError(TransportError::Kind::mismatch, lane_.job_rank(peer),
                           fmt::format("worker {} sent {} bytes that are no message of {} weights",
                                       peer, bytes, x.count()));
    note_coding();
  }
  void note_coding() {
    const Coding now = mail_.code_->coding();
    if (now.plain_bytes == 0 && now.decode_s == 0) return;  // numbers as they are
    const std::lock_guard hold(mail_.lock_);
    mail_.coding_ = now;
  }

  // Waits for the next thing that happens, and deals with it.
  void step() {
    if (!bell_) bell_ = lane_.bell();
    std::vector<Request> open{bell_.request()};
    std::vector<int> whose{lane_.rank()};
    const auto add = [&](int peer, const Pending& pending) {
      if (!pending) return;
      open.push_back(pending.request());
      whose.push_back(peer);
    };
    bool busy = false;
    for (int peer = 0; peer < lane_.size(); ++peer) {
      const Peer& p = peers_[peer];
      add(peer, p.heard);
      add(peer, p.coming);
      add(peer, p.told);
      if (p.sending) add(peer, p.sending->head);
      if (p.sending) add(peer, p.sending->x);
      busy |= p.coming || p.sending;
    }
    const double since = mail_.clock_.now();
    const Ending ending = wait_any_while_they_live(lane_, open);
    if (busy && !resting_) {
      const std::lock_guard hold(mail_.lock_);
      mail_.exchanging_s_ += mail_.clock_.now() - since;
    }
    if (ending.gone())
      lose(whose[ending.index]);
    else if (ending.index == 0)
      bell_.ended();
    else
      arrived(whose[ending.index], open[ending.index], ending.arrival);
  }

  void arrived(int peer, Request request, const Arrival& arrival) {
    Peer& p = peers_[peer];
    if (p.heard.is(request))
      heard(peer, arrival.bytes == 0);
    else if (p.coming.is(request))
      landed(peer, arrival.bytes);
    else if (p.told.is(request))
      p.told.ended();
    else if (p.sending->head.is(request))
      p.sending->head.ended();
    else
      sent(p);
  }

  void heard(int peer, bool rests) {
    peers_[peer].heard.ended();
    if (rests) {
      peers_[peer].rests = true;
      const std::lock_guard hold(mail_.lock_);
      mail_.rests_[peer] = true;
      return;
    }
    here_.push_back(peer);
    open_next();
  }

  void landed(int peer, std::size_t bytes) {
    peers_[peer].coming.ended();
    here_.pop_front();
    decode(peer, bytes);
    mail_.received(peer, peers_[peer].head, landing_);
    listen(peer);
    open_next();
  }

  // The weights have left, and the head went ahead of them.
  void sent(Peer& p) {
    p.sending->x.ended();
    if (p.sending->head) ending_while_it_lives(lane_, p.sending->head);
    Outgoing out = std::move(p.sending->out);
    p.sending.reset();
    const std::lock_guard hold(mail_.lock_);
    mail_.idle_.push_back(std::move(out));
  }

  GossipMail& mail_;
  Transport& lane_;
  Scratch landing_;
  std::vector<std::byte> landing_memory_;  // of a message that is not the weights themselves
  std::vector<Peer> peers_;
  std::deque<int> here_;  // peers whose head is here, and whose weights are not
  Pending bell_;
  bool resting_ = false, said_rest_ = false;
};

void GossipMail::work(Transport& lane) {
  try {
    Job(*this, lane).run();
  } catch (const std::exception&) {
    failed_ = true;
    throw;
  }
}

}  // namespace lockstep
