#include "measure/metered.h"

namespace lockstep {
namespace {

Traffic of_strategy(const Ledger& ledger) {
  Traffic moved = total_of(ledger, Purpose::gradients);
  return moved += total_of(ledger, Purpose::weights);
}

}  // namespace

class Metered::View final : public WindowView {
 public:
  View(Window& below, Ledger& ledger) : WindowView(below), ledger_(ledger) {}

  void moved(int peer, Tag tag, std::size_t read, std::size_t written) override {
    Traffic& line = ledger_.at(peer, tag.purpose);
    line.bytes_received += read;
    line.bytes_sent += written;
    below_.moved(peer, tag, read, written);
  }

 private:
  Ledger& ledger_;
};

std::unique_ptr<WindowView> Metered::view_of(Window& below) {
  return std::make_unique<View>(below, ledger_);
}

Request Metered::post_send(int to, Tag tag, ConstBytes bytes) {
  const Request request = inner_.post_send(to, tag, bytes);
  guarded([&] { ledger_.at(to, tag.purpose) += {.bytes_sent = bytes.size, .messages_sent = 1}; });
  open_[request.id] = {tag.purpose, to, bytes.size};
  return request;
}

Request Metered::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  const Request request = inner_.post_recv(from, tag, into, combine);
  open_[request.id] = {tag.purpose};
  return request;
}

void Metered::ended(Request request, const Ending& ending) {
  const auto entry = open_.find(request.id);
  if (entry == open_.end()) return;  // posted below this decorator
  if (entry->second.to == -1 && ending.arrived())
    guarded([&] {
      ledger_.at(ending.arrival.from, entry->second.purpose) +=
          {.bytes_received = ending.arrival.bytes, .messages_received = 1};
    });
  open_.erase(entry);
}

Ending Metered::wait_any(std::span<const Request> requests, Deadline deadline) {
  Ending ending = inner_.wait_any(requests, deadline);
  if (!ending.late()) ended(requests[ending.index], ending);
  return ending;
}

std::optional<Ending> Metered::test(Request request) {
  auto ending = inner_.test(request);
  if (ending) ended(request, *ending);
  return ending;
}

bool Metered::give_up(Request request) noexcept {
  const bool nothing_came = inner_.give_up(request);
  const auto entry = open_.find(request.id);
  if (entry == open_.end()) return nothing_came;
  const Open& open = entry->second;
  if (nothing_came && open.to != -1)
    guarded([&] {
      ledger_.at(open.to, open.purpose) -= {.bytes_sent = open.bytes, .messages_sent = 1};
    });
  open_.erase(entry);
  return nothing_came;
}

MeteredRank::MeteredRank(Rank& rank)
    : ledger_(rank.size()),
      metered_(rank.peers, ledger_),
      view_(rank, {.peers = &metered_}, [&](Background& inner, int) {
        auto jobs = std::make_unique<MeteredBackground>(inner, rank.size());
        lanes_.push_back(jobs.get());
        return jobs;
      }) {}

Ledger MeteredRank::all() const {
  Ledger all = ledger_;
  for (const MeteredBackground* lane : lanes_) all += lane->ledger();
  return all;
}

Traffic MeteredRank::exchanged() const {
  Traffic moved = of_strategy(all());
  if (moved.messages_sent + moved.messages_received == 0)
    moved.bytes_sent = moved.bytes_received = moved.bytes_sent + moved.bytes_received;
  moved += passed();
  return moved += exchanged_before_;
}

Traffic MeteredRank::other() const {
  const Ledger ledger = all();
  Traffic rest = total(ledger);
  rest -= of_strategy(ledger);
  rest -= passed();
  return rest += other_before_;
}

void MeteredRank::restore(const Traffic& exchanged, const Traffic& other) {
  exchanged_before_ = exchanged;
  other_before_ = other;
}

}  // namespace lockstep
