// Chosen ranks of a transport, in chosen order, as a transport of their own: rank i of the group is
// ranks[i] of `inner`. Costs one table look-up a call. `inner` outlives the group; both belong to
// one thread and share its tags, so members keep group and inner traffic apart by tag.
//
// Any source: where the group leaves ranks out, none of those may send on a tag with an open
// any-source recv of the group; it would be matched, and that is a `mismatch` naming it. Errors: a
// TransportError passes through untouched: its text and peer() name the rank of the outermost
// (job-wide) transport, since it is read by those who know nothing of the group. dead_peers() has
// group ranks.
#pragma once

#include "transport/decorator.h"

namespace lockstep {

class Group : public Decorator {
 public:
  // UsageError unless `ranks` are distinct ranks of `inner` and this one is among them.
  Group(Transport& inner, std::vector<int> ranks);

  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const override;
  int job_rank(int rank) const override { return inner_.job_rank(outer(rank)); }

  [[nodiscard]] Request send(int to, Tag, ConstBytes) override;
  [[nodiscard]] Request recv(int from, Tag, Bytes into, Combine combine = nullptr) override;
  std::size_t wait_any(std::span<const Request>, Deadline, Arrival* arrival = nullptr) override;
  std::optional<Arrival> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  std::vector<int> dead_peers() override;

  std::unique_ptr<Window> open_window(std::size_t bytes,
                                      std::span<const int> members = {}) override;
  // Also windows that `inner` opened, if all their members are in the group.
  Window* window_at(const void* address) override;

 private:
  class View;

  int outer(int group_rank) const;  // UsageError if out of range
  Arrival translated(Arrival) const;
  std::unique_ptr<WindowView> view_of(Window&) override;

  std::vector<int> ranks_;  // inner rank of each group rank
  std::vector<int> index_;  // group rank of each inner rank, or -1
  std::vector<int> hosts_;
  int me_ = -1;
};

}  // namespace lockstep
