#include "transport/ucx/ucx.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/zero_pages.h"
#include "transport/awake_clock.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

// How often a wait looks in vain before it sleeps.
constexpr int kSpins = 20;
// How many moves in a row may keep a wait from looking at its deadline.
constexpr int kBusyMoves = 64;
// A send as short as this is made from a copy, so that its memory can be had back at any time. For
// longer ones a copy would cost more than the message.
constexpr std::size_t kCopiedBytes = 4096;
// How long a long message that is given up may move, or stand still, before this rank hangs up.
constexpr double kMovingSeconds = 1, kStillSeconds = 0.05;

// From the top: a byte that is 0 (see UcxPeers::kTagSignal), the sender, Tag::key(), the format.
// The format is not matched but compared.
ucp_tag_t wire_tag(int from, Tag tag) {
  return ucp_tag_t(from) << UcxPeers::kTagRankShift | ucp_tag_t(tag.key()) << 8 | tag.format;
}

ucp_tag_t match_mask(int from) {
  const ucp_tag_t all = ~ucp_tag_t{0xff};
  return from == kAnyRank ? all & ~UcxPeers::kTagRankMask : all;
}

int sender_of(ucp_tag_t tag) {
  return static_cast<int>((tag & UcxPeers::kTagRankMask) >> UcxPeers::kTagRankShift);
}

void drop(ucp_worker_h worker, ucp_tag_message_h message) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
  param.cb.recv = [](void* request, ucs_status_t, const ucp_tag_recv_info_t*, void*) {
    ucp_request_free(request);
  };
  ucp_tag_msg_recv_nbx(worker, nullptr, 0, message, &param);
}

// A pool that has lent out more buffers at once than this lets the smallest go.
constexpr std::size_t kKeptBlocks = 16;

}  // namespace

ScratchPool::Block ScratchPool::take(std::size_t bytes) {
  const auto fits =
      std::ranges::find_if(free_, [&](const Block& block) { return block.capacity >= bytes; });
  if (fits == free_.end()) return {std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes};
  Block taken = std::move(*fits);
  free_.erase(fits);
  return taken;
}

void ScratchPool::give_back(Block&& given) {
  const auto place = std::ranges::lower_bound(free_, given.capacity, {}, &Block::capacity);
  free_.insert(place, std::move(given));
  if (free_.size() > kKeptBlocks) free_.erase(free_.begin());
}

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, UcxPlace place,
                           std::vector<std::string> addresses, Deaths& deaths)
    : place_(std::move(place)),
      deaths_(deaths),
      worker_(std::move(worker)),
      peers_(*worker_, place_.rank, std::move(addresses), place_.seal, deaths) {}

UcxTransport::~UcxTransport() {
  // Nothing may land in memory whose owner is gone.
  for (Operation& o : operations_.slots())
    if (o.id != 0 && o.receives && !o.ended) ucp_request_cancel(worker_->handle(), o.request);
}

double UcxTransport::now() const { return wall_now(); }

Request UcxTransport::post_send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank(), size(), "send to");
  check_real(bytes);
  const ucp_ep_h endpoint = peers_.endpoint(to);
  Operation& o = operations_.add(to, tag);
  o.bytes = bytes.size;
  if (!endpoint) {
    begun(o, UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED));
    return {o.id};
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &o;
  if (bytes.size > 0 && bytes.size <= kCopiedBytes) {
    o.scratch = copies_.take(kCopiedBytes);
    std::memcpy(o.scratch.data.get(), bytes.data, bytes.size);
    bytes.data = o.scratch.data.get();
  }
  begun(o, ucp_tag_send_nbx(endpoint, bytes.data, bytes.size, wire_tag(rank(), tag), &param));
  return {o.id};
}

Request UcxTransport::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  check_peer(from, rank(), size(), "receive from");
  check_real(into);
  peers_.endpoint(from);  // so that we learn when it is gone, even if we never send to it
  Operation& o = operations_.add(from, tag, into, combine);
  o.receives = true;
  if (combine) o.scratch = scratch_.take(into.size);
  post(o);
  return {o.id};
}

void UcxTransport::post(Operation& o) {
  o.ended = false;
  ucp_request_param_t param{};
  // A receive that ended at once would not tell the size of a message too long.
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_received;
  param.user_data = &o;
  begun(o, ucp_tag_recv_nbx(worker_->handle(), o.combine ? o.scratch.data.get() : o.into.data,
                            o.into.size, wire_tag(o.peer, o.tag), match_mask(o.peer), &param));
}

void UcxTransport::begun(Operation& o, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) {
    o.request = request;  // the callback may have ended it already
    return;
  }
  o.ended = true;
  o.status = UCS_PTR_STATUS(request);  // of a null pointer: UCS_OK
}

void UcxTransport::on_sent(void*, ucs_status_t status, void* operation) {
  auto& o = *static_cast<Operation*>(operation);
  o.ended = true;
  o.status = status;
}

void UcxTransport::on_received(void*, ucs_status_t status, const ucp_tag_recv_info_t* info,
                               void* operation) {
  auto& o = *static_cast<Operation*>(operation);
  o.ended = true;
  o.status = status;
  o.info = *info;
}

void UcxTransport::release(Operation& o) {
  if (o.request) ucp_request_free(std::exchange(o.request, nullptr));
  if (o.scratch.data) (o.receives ? scratch_ : copies_).give_back(std::exchange(o.scratch, {}));
  operations_.end(o);
}

bool UcxTransport::arrived(const Operation& o) {
  return o.ended && (o.status == UCS_OK || o.status == UCS_ERR_MESSAGE_TRUNCATED);
}

std::optional<Ending> UcxTransport::take(Operation& o) {
  if (o.is_bell && rings_.load() > 0) {
    rings_.fetch_sub(1);
    o.ended = true;
  }
  if (!arrived(o)) return {};
  if (!o.receives) {
    release(o);
    return Ending{0, {rank(), o.bytes}};
  }
  return land(o);
}

Ending UcxTransport::land(Operation& o) {
  const int from = o.peer;
  const auto format = static_cast<std::uint8_t>(o.info.sender_tag & 0xff);
  const std::size_t bytes = o.info.length;
  const auto error = misfit(from, format, bytes, rank(), o.tag, o.into.size);
  if (!error && o.combine && bytes > 0) o.combine(o.into.data, o.scratch.data.get(), bytes);
  release(o);
  if (error) throw *error;
  return {0, {from, bytes}};
}

std::optional<Ending> UcxTransport::hopeless(Operation& o) {
  if (arrived(o) || o.is_bell) return {};
  const bool ended = o.ended;
  if (ended) peers_.broke(o.peer);
  const auto error = peers_.verdict(o.peer, o.tag);
  if (!error) return {};
  if (!ended && o.receives) ucp_request_cancel(worker_->handle(), o.request);
  if (!o.ended) {
    // A receive that is under way may still come to a good end if the peer left in good order.
    if (!o.receives || error->kind() == TransportError::Kind::dead) peers_.hang_up(o.peer);
    if (!o.ended) return {};
  }
  if (arrived(o)) return {};  // just now
  release(o);
  peers_.tell(*error);
  return Ending{0, {}, error};
}

bool UcxTransport::progress() {
  const bool moved = peers_.progress();
  if (!orphans_.empty())
    std::erase_if(orphans_, [&](Operation* o) {
      if (!o->ended) return false;
      release(*o);
      return true;
    });
  return moved;
}

std::vector<int> UcxTransport::meet_everybody(double seconds) {
  peers_.meet_everybody();
  for (Countdown time(seconds);;) {
    // Also when all have greeted us: our own greetings may still wait for their connections.
    const bool moved = peers_.progress();
    std::vector<int> unmet = peers_.unmet();
    if (unmet.empty() && !moved) peers_.stay_idle();
    if ((unmet.empty() && !moved) || time.left() <= 0) return unmet;
    if (!moved) peers_.sleep(time.nap());
  }
}

Ending UcxTransport::wait_any(std::span<const Request> requests, Deadline deadline) {
  std::optional<Countdown> time;
  for (int spins = 0, moves = 0;;) {
    if (auto ended = operations_.first(requests, [&](auto& o) { return take(o); }))
      return std::move(*ended);
    // What a peer sent before it died is received first: so no verdicts while anything moves.
    if (progress() && ++moves < kBusyMoves) {
      spins = 0;
      continue;
    }
    moves = 0;
    if (auto gone = operations_.first(requests, [&](auto& o) { return hopeless(o); }))
      return std::move(*gone);
    if (!time) time.emplace(deadline.at - now());
    if (time->left() <= 0) return operations_.late(requests, rank());
    if (++spins > kSpins) peers_.sleep(time->nap());
  }
}

std::optional<Ending> UcxTransport::test(Request request) {
  Operation& o = operations_.find(request);
  if (auto ended = take(o)) return ended;
  const bool moved = progress();
  if (auto ended = take(o)) return ended;
  return moved ? std::nullopt : hopeless(o);
}

std::optional<Arrival> UcxTransport::probe(int from, Tag tag) {
  if (from != kAnyRank) check_peer(from, rank(), size(), "receive from");
  progress();
  const ucp_tag_t wanted = wire_tag(from == kAnyRank ? 0 : from, tag);
  ucp_tag_recv_info_t info;
  while (ucp_tag_probe_nb(worker_->handle(), wanted, match_mask(from), 0, &info)) {
    if (peers_.has(sender_of(info.sender_tag)))
      return Arrival{sender_of(info.sender_tag), info.length};
    drop(worker_->handle(),
         ucp_tag_probe_nb(worker_->handle(), wanted, match_mask(from), 1, &info));
  }
  return {};
}

void UcxTransport::end_soon(Operation& o) {
  const double until = now() + kMovingSeconds;
  for (double moved = now(); !o.ended && now() < std::min(until, moved + kStillSeconds);) {
    if (peers_.verdict(o.peer, o.tag)) break;
    if (peers_.progress())
      moved = now();
    else
      peers_.sleep(kStillSeconds / 10);
  }
  if (o.ended) return;
  peers_.part_with(o.peer);
  for (const double since = now(); !o.ended && now() < since + kMovingSeconds;) peers_.progress();
}

bool UcxTransport::give_up(Request request) noexcept {
  Operation* const o = operations_.find_open(request);
  if (!o || o->given_up) return true;
  if (o->is_bell) {
    release(*o);
    return true;
  }
  if (!o->ended && o->receives) ucp_request_cancel(worker_->handle(), o->request);
  const bool owned = o->scratch.data || (o->receives ? o->into.size : o->bytes) == 0;
  if (!o->ended && !owned) try {
      end_soon(*o);
    } catch (const std::exception&) {  // UCX is out of order, and says so to whoever calls next
    }
  if (!o->ended) {
    o->given_up = true;
    orphans_.push_back(o);
    return false;
  }
  const bool came = arrived(*o);
  release(*o);
  return !came;
}

// No memory is shared with anybody: of(peer) is empty for every peer.
class UcxTransport::PrivateWindow final : public Window {
 public:
  PrivateWindow(UcxTransport& who, std::size_t bytes, std::vector<int> members)
      : who_(who), memory_(bytes), members_(std::move(members)) {
    who_.windows_.push_back(this);
  }
  ~PrivateWindow() override { std::erase(who_.windows_, this); }

  std::span<const int> members() const override { return members_; }
  bool reaches_all() const override { return members_.size() == 1; }
  Bytes mine() const override { return memory_.bytes(); }
  Bytes of(int rank) const override { return rank == who_.rank() ? mine() : Bytes{}; }
  Words said(int) const override { return words_; }

  int meet(const Words& words) override {
    if (!reaches_all())
      throw InternalError("a meeting of ranks that share no memory: ask reaches_all() first");
    words_ = words;
    return -1;
  }

 private:
  UcxTransport& who_;
  const ZeroPages memory_;
  const std::vector<int> members_;
  Words words_{};
};

std::unique_ptr<Window> UcxTransport::open_window(std::size_t bytes, std::span<const int> members) {
  return std::make_unique<PrivateWindow>(*this, bytes, members_or_all(members, size()));
}

Window* UcxTransport::window_at(const void* address) {
  const auto found =
      std::ranges::find_if(windows_, [&](Window* w) { return w->mine().holds(address); });
  return found == windows_.end() ? nullptr : *found;
}

}  // namespace lockstep
