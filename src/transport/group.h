// Chosen ranks of a transport, in chosen order, as a transport of their own: rank i of the group is
// ranks[i] of `inner`. Costs one table look-up a call. `inner` outlives the group; both belong to
// one thread and share its tags, so members keep group and inner traffic apart by tag.
//
// A probe of any rank must not find messages of ranks that the group leaves out: that is a
// `mismatch` naming the sender. Errors: a TransportError passes through untouched: its text and
// peer() name the rank of the outermost (job-wide) transport, since it is read by those who know
// nothing of the group. dead_peers() has group ranks.
#pragma once

#include "transport/decorators/decorator.h"

namespace lockstep {

class Group : public Decorator {
 public:
  // UsageError unless `ranks` are distinct ranks of `inner` and this one is among them.
  Group(Transport& inner, std::vector<int> ranks);

  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const override;
  int job_rank(int rank) const override { return inner_.job_rank(outer(rank)); }

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
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
