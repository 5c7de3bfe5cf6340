#include "transport/group.h"

#include <algorithm>
#include <map>

namespace lockstep {

// The same window with its ranks renumbered.
class Group::View final : public WindowView {
 public:
  View(const Group& group, Window& below) : WindowView(below), group_(group) {}

  std::span<const int> members() const override {
    members_.clear();
    for (int r : below_.members()) members_.push_back(group_.index_[r]);
    std::sort(members_.begin(), members_.end());
    return members_;
  }
  Bytes of(int rank) const override { return below_.of(group_.outer(rank)); }
  Words said(int rank) const override { return below_.said(group_.outer(rank)); }
  void moved(int peer, Tag tag, std::size_t read, std::size_t written) override {
    below_.moved(group_.outer(peer), tag, read, written);
  }

  int meet(const Words& words) override {
    if (below_.meet(words) == -1) return -1;
    // The first in the group's order, which need not be the inner one's.
    const auto all = members();
    return *std::find_if(all.begin(), all.end(), [&](int member) { return said(member) != words; });
  }

 private:
  const Group& group_;
  // Worked out on each call: another window may since have been opened in the same place.
  mutable std::vector<int> members_;
};

Group::Group(Transport& inner, std::vector<int> ranks)
    : Decorator(inner), ranks_(std::move(ranks)), index_(inner.size(), -1) {
  for (int i = 0; i < size(); ++i) {
    const int r = ranks_[i];
    if (r < 0 || r >= inner.size())
      throw UsageError(fmt::format("rank {} in a group: ranks are 0..{}", r, inner.size() - 1));
    if (index_[r] != -1) throw UsageError(fmt::format("rank {} is twice in a group", r));
    index_[r] = i;
    if (r == inner.rank()) me_ = i;
  }
  if (me_ == -1)
    throw UsageError(fmt::format("rank {} makes a group of ranks {}, and is not among them",
                                 inner.rank(), fmt::join(ranks_, ", ")));

  std::map<int, int> renumbered;
  for (int r : ranks_)
    hosts_.push_back(renumbered.try_emplace(inner.host_of(r), static_cast<int>(renumbered.size()))
                         .first->second);
}

int Group::outer(int group_rank) const {
  if (group_rank < 0 || group_rank >= size())
    throw UsageError(
        fmt::format("rank {} of a group of {}: ranks are 0..{}", group_rank, size(), size() - 1));
  return ranks_[group_rank];
}

Arrival Group::translated(Arrival arrival) const {
  const int from = index_[arrival.from];
  if (from == -1)
    throw TransportError(
        TransportError::Kind::mismatch, arrival.from,
        fmt::format("rank {} sent on a tag that a group of ranks {} probes of any rank: ranks "
                    "outside the group need a tag of their own",
                    arrival.from, fmt::join(ranks_, ", ")));
  return {from, arrival.bytes};
}

int Group::host_of(int rank) const {
  outer(rank);
  return hosts_[rank];
}

Request Group::post_send(int to, Tag tag, ConstBytes bytes) {
  return inner_.post_send(outer(to), tag, bytes);
}

Request Group::post_recv(int from, Tag tag, Bytes into, Combine combine) {
  return inner_.post_recv(outer(from), tag, into, combine);
}

Ending Group::wait_any(std::span<const Request> requests, Deadline deadline) {
  Ending ending = inner_.wait_any(requests, deadline);
  if (ending.arrived()) ending.arrival.from = index_[ending.arrival.from];
  return ending;
}

std::optional<Ending> Group::test(Request request) {
  auto ending = inner_.test(request);
  if (ending && ending->arrived()) ending->arrival.from = index_[ending->arrival.from];
  return ending;
}

std::optional<Arrival> Group::probe(int from, Tag tag) {
  const auto arrival = inner_.probe(from == kAnyRank ? kAnyRank : outer(from), tag);
  return arrival ? std::optional(translated(*arrival)) : std::nullopt;
}

std::vector<int> Group::dead_peers() {
  std::vector<int> dead;
  for (int r : inner_.dead_peers())
    if (index_[r] != -1) dead.push_back(index_[r]);
  std::sort(dead.begin(), dead.end());
  return dead;
}

std::unique_ptr<Window> Group::open_window(std::size_t bytes, std::span<const int> members) {
  std::vector<int> translated;
  for (int member : members) translated.push_back(outer(member));
  if (members.empty()) translated = ranks_;
  std::sort(translated.begin(), translated.end());
  return Decorator::open_window(bytes, translated);
}

Window* Group::window_at(const void* address) {
  if (const Window* below = inner_.window_at(address))
    for (int r : below->members())
      if (index_[r] == -1) return nullptr;
  return Decorator::window_at(address);
}

std::unique_ptr<WindowView> Group::view_of(Window& below) {
  return std::make_unique<View>(*this, below);
}

}  // namespace lockstep
