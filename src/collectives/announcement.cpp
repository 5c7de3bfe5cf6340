#include "collectives/announcement.h"

namespace lockstep {

void Announcement::tell(std::uint64_t count) {
  end();
  told_ = count;
  for (int r = 0; r < workers_; ++r)
    if (r != peers_.rank()) sends_.push_back(peers_.send(r, tag_, bytes_of(told_)));
}

void Announcement::end() {
  for (; !sends_.empty(); sends_.pop_back()) {
    const Ending ending = peers_.ending(sends_.back(), peers_.patience());
    if (ending.late()) ending.or_throw();  // one that is gone needs to know nothing
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
