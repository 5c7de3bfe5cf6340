#include "train/announcement.h"

namespace lockstep {

Announcement::~Announcement() {
  for (const Request request : sends_) try {
      peers_.cancel(request);
    } catch (const std::exception&) {  // it had ended
    }
}

void Announcement::tell(std::uint64_t count) {
  end();
  told_ = count;
  for (int r = 0; r < workers_; ++r) {
    try {
      if (r != peers_.rank()) sends_.push_back(peers_.send(r, tag_, bytes_of(told_)));
    } catch (const TransportError&) {  // it is gone, and needs to know nothing
    }
  }
}

void Announcement::end() {
  for (; !sends_.empty(); sends_.pop_back()) {
    try {
      peers_.wait(sends_.back());
    } catch (const TransportError& e) {
      if (!e.is_gone()) throw;
    }
  }
}

std::optional<Announcement::Heard> Announcement::hear() {
  const auto told = peers_.probe(kAnyRank, tag_);
  if (!told) return {};
  Heard heard{told->from, 0};
  peers_.wait(peers_.recv(told->from, tag_, bytes_of(heard.count)));
  return heard;
}

}  // namespace lockstep
