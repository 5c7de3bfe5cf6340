#include "transport/shaped.h"

#include <algorithm>

#include "transport/failure.h"

namespace lockstep {
namespace {

constexpr Tag kStamps{Purpose::control, 0xffffff};

bool over(Transport& transport, Request request) {
  try {
    return transport.test(request).has_value();
  } catch (const TransportError&) {  // its message fails too, and that one tells
    return true;
  }
}

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

Shaped::~Shaped() {
  for (const SentStamp& s : sent_) inner_.cancel(s.request);
}

void Shaped::settle() {
  for (const SentStamp& s : sent_) try {
      inner_.wait(s.request);
    } catch (const TransportError& e) {
      if (!e.is_gone()) inner_.cancel(s.request);
    }
  sent_.clear();
}

Request Shaped::send(int to, Tag tag, ConstBytes bytes) {
  check_peer(to, rank(), size(), "send to");
  std::erase_if(sent_, [&](const SentStamp& s) { return over(inner_, s.request); });
  const double seen_at = roads_->seen_at(to, bytes.size, now());
  const Request message = inner_.send(to, tag, bytes);
  auto stamp = std::make_unique<Stamp>(Stamp{.seen_at = seen_at, .key = tag.key()});
  const Request request = inner_.send(to, kStamps, bytes_of(*stamp));
  sent_.push_back({message, request, std::move(stamp)});
  return message;
}

bool Shaped::cancel(Request request) {
  if (!HeldBack::cancel(request)) return false;
  const auto sent = std::find_if(sent_.begin(), sent_.end(),
                                 [&](const SentStamp& s) { return s.message == request; });
  if (sent != sent_.end()) {
    inner_.cancel(sent->request);
    sent_.erase(sent);
  }
  return true;
}

double Shaped::stamp_of(Stream stream, std::size_t place) {
  while (stamps_[stream].size() <= place) {
    Stamp stamp;
    inner_.wait(inner_.recv(stream.first, kStamps, bytes_of(stamp)));
    stamps_[{stream.first, stamp.key}].push_back(stamp.seen_at);
  }
  return stamps_[stream][place];
}

double Shaped::due(const Posted& receive, const Arrival& arrival) {
  // Earlier receives from the same rank took earlier messages, seen or not.
  std::size_t place = 0;
  for (const Posted& p : posted()) {
    if (p.id == receive.id) break;
    place += p.key == receive.key && p.from == arrival.from;
  }
  const Stream stream{arrival.from, receive.key};
  const double at = stamp_of(stream, place);
  stamps_[stream].erase(stamps_[stream].begin() + static_cast<std::ptrdiff_t>(place));
  return at;
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
