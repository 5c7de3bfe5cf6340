#include "measure/metered.h"

namespace lockstep {

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

Request Metered::send(int to, Tag tag, ConstBytes bytes) {
  const Request request = inner_.send(to, tag, bytes);
  guarded([&] { ledger_.at(to, tag.purpose) += {.bytes_sent = bytes.size, .messages_sent = 1}; });
  open_[request.id] = {tag.purpose, to, bytes.size};
  return request;
}

Request Metered::recv(int from, Tag tag, Bytes into, Combine combine) {
  const Request request = inner_.recv(from, tag, into, combine);
  open_[request.id] = {tag.purpose};
  return request;
}

void Metered::ended(Request request, const Arrival& arrival) {
  const auto entry = open_.find(request.id);
  if (entry == open_.end()) return;  // posted below this decorator
  if (entry->second.to == -1)
    guarded([&] {
      ledger_.at(arrival.from, entry->second.purpose) +=
          {.bytes_received = arrival.bytes, .messages_received = 1};
    });
  open_.erase(entry);
}

std::size_t Metered::wait_any(std::span<const Request> requests, Deadline deadline,
                              Arrival* arrival) {
  Arrival how;
  const std::size_t index = inner_.wait_any(requests, deadline, &how);
  ended(requests[index], how);
  if (arrival) *arrival = how;
  return index;
}

std::optional<Arrival> Metered::test(Request request) {
  const auto arrival = inner_.test(request);
  if (arrival) ended(request, *arrival);
  return arrival;
}

bool Metered::cancel(Request request) {
  const bool cancelled = inner_.cancel(request);
  const auto entry = open_.find(request.id);
  if (entry == open_.end()) return cancelled;
  const Open& open = entry->second;
  if (cancelled && open.to != -1)
    guarded([&] {
      ledger_.at(open.to, open.purpose) -= {.bytes_sent = open.bytes, .messages_sent = 1};
    });
  open_.erase(entry);
  return cancelled;
}

}  // namespace lockstep
