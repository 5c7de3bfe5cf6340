#include "transport/ucx/peers.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "transport/real_rank.h"

namespace lockstep {
namespace {

// How long a broken connection may wait for somebody who knows why.
constexpr double kVerdictSeconds = 1;
// How long a leaving rank waits for peers that are busy elsewhere to hear its goodbye.
constexpr double kGoodbyeSeconds = 2;
constexpr double kCloseSeconds = 0.5;
// Deaths::event_fd() tells of the first death only.
constexpr double kLaterDeathsSeconds = 0.05;

void forget(ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

void free_when_done(void* request, ucs_status_t, void* text) {
  delete static_cast<std::string*>(text);
  ucp_request_free(request);
}

// In a time that does not depend on where they differ.
bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ucs_status_ptr_t close(ucp_ep_h endpoint, unsigned flags) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  return ucp_ep_close_nbx(endpoint, &param);
}

}  // namespace

UcxPeers::UcxPeers(UcxWorker& worker, int rank, std::vector<std::string> addresses, Seal seal,
                   Deaths& deaths)
    : worker_(worker),
      rank_(rank),
      seal_(std::move(seal)),
      deaths_(deaths),
      peers_(addresses.size()) {
  for (Peer& p : peers_) {
    p.all = this;
    p.address = std::move(addresses[rank_of(p)]);
    p.reachable = rank_of(p) != rank && !p.address.empty();
  }
  listen();
}

UcxPeers::~UcxPeers() {
  say_goodbye();
  close_all();
  ucp_request_cancel(worker_.handle(), listening_);
  ucp_request_free(listening_);
}

ucp_ep_h UcxPeers::endpoint(int peer) {
  Peer& p = peers_[peer];
  if (p.endpoint || p.broken || p.left) return p.endpoint;
  if (!p.reachable)
    throw UsageError(
        fmt::format("rank {} is not reached over the network from rank {}", peer, rank_));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(p.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, &p};
  if (ucp_ep_create(worker_.handle(), &params, &p.endpoint) != UCS_OK) {
    p.endpoint = nullptr;
    broke(peer);
    return nullptr;
  }
  signal(p, Signal::greeting);
  return p.endpoint;
}

void UcxPeers::meet_everybody() {
  for (const Peer& p : peers_)
    if (p.reachable) endpoint(rank_of(p));
}

std::vector<int> UcxPeers::unmet() const {
  std::vector<int> ranks;
  for (const Peer& p : peers_) {
    if (!p.reachable || p.greeted) continue;
    if (p.broken)
      throw TransportError(
          TransportError::Kind::dead, rank_of(p),
          fmt::format("rank {} could not be reached by rank {}", rank_of(p), rank_));
    ranks.push_back(rank_of(p));
  }
  return ranks;
}

bool UcxPeers::progress() {
  used_ = true;
  const bool moved = worker_.progress();
  if (any_failed_) close_failed();
  ucp_tag_recv_info_t info;
  for (;;) {
    const ucs_status_t heard = ucp_tag_recv_request_test(listening_, &info);
    if (heard == UCS_INPROGRESS) break;
    ucp_request_free(listening_);
    if (heard == UCS_OK) handle_signal(info.sender_tag, {heard_.data(), info.length});
    listen();
  }
  return moved;
}

void UcxPeers::sleep(double seconds) {
  const bool first = deaths_.count() == 0;
  if (!first || any_undecided_) seconds = std::min(seconds, kLaterDeathsSeconds);
  worker_.sleep(first ? deaths_.event_fd() : -1, seconds);
}

std::optional<TransportError> UcxPeers::verdict(int peer, Tag tag) {
  const Peer& p = peers_[peer];
  if (p.left && !p.blame.nobody()) {
    if (p.blame.died && p.blame.rank != rank_)
      deaths_.report(p.blame.rank, fmt::format("said rank {}, which left therefore", peer));
    return gone(peer, p.blame, rank_, tag);
  }
  if (deaths_.dead(peer)) return died(peer, deaths_.reason(peer));
  if (p.left) return departed(peer, rank_, tag);
  if (!p.broken) return {};
  if (deaths_.left(peer)) return departed(peer, rank_, tag);
  // It may have quit because of another's death, which then is the one to name.
  if (const int other = untold_death(); other >= 0) return died(other, deaths_.reason(other));
  // Its goodbye may be on the way here, or the news that it left. A closed connection without
  // either is a death, also of one that never answered: it may have been killed before it could.
  if (wall_now() < p.broken_at + kVerdictSeconds || deaths_.heard_until() < p.broken_at) return {};
  deaths_.report(peer, "its connection broke");
  return died(peer, deaths_.reason(peer));
}

void UcxPeers::broke(int peer) {
  Peer& p = peers_[peer];
  if (p.broken) return;
  p.broken = any_undecided_ = true;
  p.broken_at = wall_now();
}

void UcxPeers::tell(const TransportError& error) {
  deaths_.blame(blame_of(error));
  if (error.kind() == TransportError::Kind::dead) peers_[error.peer()].told = true;
}

int UcxPeers::untold_death() const {
  for (const int rank : deaths_.list())
    if (rank != rank_ && !peers_[rank].told) return rank;
  return -1;
}

void UcxPeers::on_error(void* peer, ucp_ep_h, ucs_status_t) {
  Peer& p = *static_cast<Peer*>(peer);
  p.failed = p.all->any_failed_ = true;
  p.all->broke(p.all->rank_of(p));
}

// An endpoint can't be closed inside its own callback.
void UcxPeers::close_failed() {
  any_failed_ = false;
  for (Peer& p : peers_) {
    if (!p.failed || !p.endpoint) continue;
    forget(close(std::exchange(p.endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE));
  }
}

// The tag of a signal says all (kind, blamed rank, and how that ended), its bytes are the seal.
void UcxPeers::signal(Peer& peer, Signal kind) {
  if (!peer.endpoint) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = free_when_done;
  const Blame blame = deaths_.blame();
  const ucp_tag_t blamed = static_cast<std::uint16_t>(blame.rank) | ucp_tag_t(blame.died) << 16;
  const ucp_tag_t tag =
      kTagSignal | ucp_tag_t(rank_) << kTagRankShift | ucp_tag_t(kind) << 32 | blamed;
  auto text = std::make_unique<std::string>(sealed(tag, worker_.address(), peer.address));
  param.user_data = text.get();
  if (UCS_PTR_IS_PTR(ucp_tag_send_nbx(peer.endpoint, text->data(), text->size(), tag, &param)))
    (void)text.release();  // free_when_done has it
}

void UcxPeers::listen() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  listening_ = ucp_tag_recv_nbx(worker_.handle(), heard_.data(), heard_.size(), kTagSignal,
                                kTagSignal, &param);
  if (UCS_PTR_IS_ERR(listening_))
    throw InternalError(
        fmt::format("ucp_tag_recv_nbx: {}", ucs_status_string(UCS_PTR_STATUS(listening_))));
}

std::string UcxPeers::sealed(ucp_tag_t tag, const std::string& from, const std::string& to) const {
  if (!seal_) return {};
  // Lengths, so that no two signals spell the same text.
  return seal_(fmt::format("{:016x} {} {} ", tag, from.size(), to.size()) + from + to);
}

void UcxPeers::handle_signal(ucp_tag_t tag, std::string_view seal) {
  const int from = static_cast<int>((tag & kTagRankMask) >> kTagRankShift);
  if (!has(from)) return;
  Peer& p = peers_[from];
  if (!same(seal, sealed(tag, p.address, worker_.address()))) return;  // a stranger's
  switch (static_cast<Signal>(tag >> 32 & 0xff)) {
    case Signal::greeting:
      p.greeted = true;
      endpoint(from);
      if (leaving_) signal(p, Signal::goodbye);
      break;
    case Signal::goodbye: {
      const int blamed = static_cast<std::int16_t>(tag & 0xffff);
      if (blamed < static_cast<int>(peers_.size())) p.blame = {blamed, (tag >> 16 & 1) != 0};
      p.left = p.heard_goodbye = true;
      signal(p, Signal::heard_goodbye);
      break;
    }
    case Signal::heard_goodbye:
      p.heard_goodbye = true;
      break;
  }
}

void UcxPeers::say_goodbye() {
  const bool used = used_, flees = used && !deaths_.blame().nobody();
  while (progress()) {
  }
  // One who flees tells everybody whom from: others may only now turn to it.
  if (flees) meet_everybody();
  leaving_ = true;
  for (Peer& p : peers_) signal(p, Signal::goodbye);
  const double until = wall_now() + (used ? kGoodbyeSeconds : 0);
  const auto waits = [&](const Peer& p) { return awaits_ear(p); };
  while (std::any_of(peers_.begin(), peers_.end(), waits) && wall_now() < until)
    if (!progress()) worker_.sleep(-1, until - wall_now());
}

bool UcxPeers::awaits_ear(const Peer& p) const {
  return p.endpoint && !p.heard_goodbye && !p.broken && !deaths_.dead(rank_of(p));
}

void UcxPeers::hang_up(int peer) {
  Peer& p = peers_[peer];
  if (!p.left) signal(p, Signal::goodbye);
  const double until = wall_now() + kCloseSeconds;
  while (awaits_ear(p) && wall_now() < until)
    if (!progress()) worker_.sleep(-1, until - wall_now());
  broke(peer);
  p.failed = any_failed_ = true;
}

void UcxPeers::part_with(int peer) {
  hang_up(peer);
  peers_[peer].left = true;
}

void UcxPeers::close_all() {
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& p : peers_) {
    if (!p.endpoint) continue;
    const bool hurry = !p.heard_goodbye;
    closing.push_back(
        close(std::exchange(p.endpoint, nullptr), hurry ? UCP_EP_CLOSE_FLAG_FORCE : 0));
  }
  const double until = wall_now() + kCloseSeconds;
  for (const ucs_status_ptr_t request : closing) {
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && wall_now() < until)
      if (!worker_.progress()) worker_.sleep(-1, until - wall_now());
    ucp_request_free(request);
  }
}

}  // namespace lockstep
