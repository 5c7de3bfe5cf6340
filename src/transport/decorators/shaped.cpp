#include "transport/decorators/shaped.h"

#include <algorithm>

#include "transport/channels.h"
#include "transport/failure.h"

namespace lockstep {
namespace {

constexpr Tag kStamps = channels::kStamps;

}  // namespace

class Shaped::View final : public WindowView {
 public:
  View(Window& below, int me) : WindowView(below), me_(me) {}
  bool reaches_all() const override { return members().size() == 1; }
  Bytes of(int rank) const override { return rank == me_ ? mine() : Bytes{}; }

 private:
  int me_;
};

std::unique_ptr<WindowView> Shaped::view_of(Window& below) {
  return std::make_unique<View>(below, rank());
}

Roads::Roads(const std::vector<Link>& links) : roads_(links.size()) {
  for (std::size_t r = 0; r < links.size(); ++r) {
    const Link& link = roads_[r].link = links[r];
    if (!(link.bytes_per_second > 0) || !(link.latency_seconds >= 0))
      throw UsageError(
          fmt::format("a link of {} bytes a second and {} s latency: the first must be above zero, "
                      "the second not below",
                      link.bytes_per_second, link.latency_seconds));
  }
}

double Roads::seen_at(int to, std::size_t bytes, double now) {
  Road& road = roads_[to];
  const double takes_s = static_cast<double>(bytes) / road.link.bytes_per_second;
  double before = road.free_at, after = 0;
  do after = std::max(now, before) + takes_s;
  while (!road.free_at.compare_exchange_weak(before, after));
  return after + road.link.latency_seconds;
}

Shaped::Shaped(Transport& inner, const std::vector<Link>& links, Sleep sleep)
    : Shaped(inner, std::make_shared<Roads>(links), std::move(sleep)) {}

Shaped::Shaped(Transport& inner, std::shared_ptr<Roads> roads, Sleep sleep)
    : HeldBack(inner, std::move(sleep)), roads_(std::move(roads)) {
  if (static_cast<int>(roads_->size()) != inner.size())
    throw UsageError(
        fmt::format("{} links for {} ranks: give one for each", roads_->size(), inner.size()));
}

void Shaped::settle() {
  for (SentStamp& s : sent_) inner_.ending(s.sending, inner_.patience());
  sent_.clear();
}

Request Shaped::post_send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank(), size(), "send to");
  // Arrived or not: if its peer is gone its message says so too.
  std::erase_if(sent_, [&](SentStamp& s) { return inner_.test(s.sending.request()).has_value(); });
  const double seen_at = roads_->seen_at(to, bytes.size, now());
  const Request message = inner_.post_send(to, tag, bytes);
  auto stamp = std::make_unique<Stamp>(Stamp{.seen_at = seen_at, .key = tag.key()});
  Pending sending = inner_.send(to, kStamps, bytes_of(*stamp));
  sent_.push_back({message, std::move(stamp), std::move(sending)});
  return message;
}

bool Shaped::give_up(Request request) noexcept {
  const bool nothing_came = HeldBack::give_up(request);
  if (!nothing_came) return false;
  const auto sent = std::ranges::find(sent_, request, &SentStamp::message);
  if (sent == sent_.end()) return true;
  sent->sending.give_up();
  sent_.erase(sent);
  return true;
}

std::deque<Shaped::Unseen>::iterator Shaped::unseen(Stream stream, std::size_t place) {
  std::deque<Unseen>& all = unseen_[stream];
  for (auto at = all.begin();; ++at) {
    if (at == all.end()) at = all.emplace(at);
    if (!at->lost && place-- == 0) return at;
  }
}

double Shaped::stamp_of(Stream stream, std::size_t place) {
  for (;;) {
    if (const auto at = unseen(stream, place); at->seen_at) return *at->seen_at;
    Stamp stamp;
    Pending coming = inner_.recv(stream.first, kStamps, bytes_of(stamp));
    const Ending ending = inner_.ending(coming, inner_.patience());
    if (ending.gone()) return now();  // its message is here all the same
    ending.or_throw();
    std::deque<Unseen>& all = unseen_[{stream.first, stamp.key}];
    const auto next = std::ranges::find_if(all, [](const Unseen& u) { return !u.seen_at; });
    if (next == all.end())
      all.push_back({stamp.seen_at});
    else if (next->lost)
      all.erase(next);
    else
      next->seen_at = stamp.seen_at;
  }
}

std::size_t Shaped::place_of(const Posted& receive) const {
  std::size_t place = 0;
  for (const Posted& p : posted()) {
    if (p.id == receive.id) break;
    place += p.key == receive.key && p.from == receive.from;
  }
  return place;
}

double Shaped::due(const Posted& receive, const Arrival&) {
  const Stream stream{receive.from, receive.key};
  const std::size_t place = place_of(receive);
  const double at = stamp_of(stream, place);
  unseen_[stream].erase(unseen(stream, place));
  return at;
}

void Shaped::lost(const Posted& receive) {
  const Stream stream{receive.from, receive.key};
  const auto message = unseen(stream, place_of(receive));
  if (message->seen_at)
    unseen_[stream].erase(message);
  else
    message->lost = true;
}

std::optional<Arrival> Shaped::probe(int from, Tag tag) {
  std::optional<Arrival> first;
  double first_at = now();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || (from != kAnyRank && from != peer)) continue;
    const auto arrival = inner_.probe(peer, tag);
    if (!arrival) continue;
    const double at = stamp_of({peer, tag.key()}, 0);
    if (at <= first_at) first_at = at, first = arrival;
  }
  return first;
}

}  // namespace lockstep
