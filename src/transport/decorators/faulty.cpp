#include "transport/decorators/faulty.h"

#include <algorithm>
#include <array>

#include "core/names.h"
#include "core/options.h"

namespace lockstep {

Fault parse_fault(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kKinds{"kill", "stall", "delay"};
  static constexpr std::array<std::string_view, 5> kKeys{"rank", "after", "at", "seconds",
                                                         "probability"};
  const auto kind = static_cast<Fault::Kind>(index_named("fault", Options::name_in(text), kKinds));
  // A kill takes the first three keys, a stall one more, a delay all.
  const Options options(text, std::span(kKeys).first(3 + static_cast<std::size_t>(kind)));

  Fault fault{kind, static_cast<int>(options.integer("rank"))};
  const std::int64_t after = options.integer("after", 0);
  if (fault.rank < 0 || after < 0)
    throw UsageError(fmt::format("fault '{}': rank and after are 0 or more", text));
  fault.after = static_cast<std::uint64_t>(after);
  fault.at_seconds = options.seconds("at", 0);
  if (kind != Fault::Kind::kill) fault.seconds = options.seconds("seconds");
  if (kind == Fault::Kind::delay) fault.probability = options.number("probability", 1);
  if (fault.probability < 0 || fault.probability > 1)
    throw UsageError(fmt::format("fault '{}': a probability is between 0 and 1", text));
  return fault;
}

class Faulty::View final : public WindowView {
 public:
  View(Window& below, Faulty& faulty) : WindowView(below), faulty_(faulty) {}
  int meet(const Words& words) override {
    faulty_.operate();
    return below_.meet(words);
  }

 private:
  Faulty& faulty_;
};

std::unique_ptr<WindowView> Faulty::view_of(Window& below) {
  return std::make_unique<View>(below, *this);
}

Faulty::Faulty(Transport& inner, const std::vector<Fault>& schedule, std::uint64_t seed,
               Sleep sleep, Die die)
    : HeldBack(inner, std::move(sleep)),
      random_(seed, inner.rank(), purpose_of("faults")),
      die_(std::move(die)),
      start_(inner.now()) {
  for (const Fault& fault : schedule) {
    if (fault.rank >= inner.size())
      throw UsageError(
          fmt::format("a fault of rank {}: ranks are 0..{}", fault.rank, inner.size() - 1));
    if (fault.rank == inner.rank())
      (fault.kind == Fault::Kind::delay ? delays_ : to_come_).push_back(fault);
  }
}

bool Faulty::started(const Fault& fault) const {
  return operations_ > fault.after && now() - start_ >= fault.at_seconds;
}

void Faulty::operate() {
  ++operations_;
  for (std::size_t i = 0; i < to_come_.size() && !killed_;) {
    if (!started(to_come_[i])) {
      ++i;
      continue;
    }
    const Fault fault = to_come_[i];
    to_come_.erase(to_come_.begin() + static_cast<std::ptrdiff_t>(i));
    if (fault.kind == Fault::Kind::stall) sleep_(fault.seconds);
    if (fault.kind == Fault::Kind::kill) killed_ = true;
    if (killed_ && die_) die_();
  }
  if (killed_)
    throw RankKilled(fmt::format("rank {} was killed by its schedule of faults", rank()));
}

double Faulty::due(const Posted& receive, const Arrival& arrival) {
  double at = now();
  for (const Fault& delay : delays_)
    if (started(delay) && random_.uniform() < delay.probability) at += delay.seconds;
  double& last = last_seen_[{arrival.from, receive.key}];
  return last = std::max(last, at);
}

Request Faulty::post_send(int to, Tag tag, ConstBytes bytes) {
  operate();
  return HeldBack::post_send(to, tag, bytes);
}
Request Faulty::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  operate();
  return HeldBack::post_recv(from, tag, into, combine);
}
Ending Faulty::wait_any(std::span<const Request> requests, Deadline deadline) {
  operate();
  return HeldBack::wait_any(requests, deadline);
}
std::optional<Ending> Faulty::test(Request request) {
  operate();
  return HeldBack::test(request);
}
std::optional<Arrival> Faulty::probe(int from, Tag tag) {
  operate();
  return HeldBack::probe(from, tag);
}
std::vector<int> Faulty::dead_peers() {
  operate();
  return HeldBack::dead_peers();
}
std::unique_ptr<Window> Faulty::open_window(std::size_t bytes, std::span<const int> members) {
  operate();
  return HeldBack::open_window(bytes, members);
}

}  // namespace lockstep
