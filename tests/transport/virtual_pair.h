// Two ranks in one thread, on a clock that only waiting moves: for exact times without a wall
// clock. Messages are there the moment they are sent.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "transport/failure.h"
#include "transport/transport.h"

namespace lockstep::testing {

struct VirtualNet {
  struct Message {
    Tag tag;
    std::vector<std::byte> data;
  };
  double now = 0;
  std::deque<Message> to[2];
};

class VirtualRank final : public Transport {
 public:
  VirtualRank(VirtualNet& net, int rank) : net_(net), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  int host_of(int) const override { return 0; }
  double now() const override { return net_.now; }
  double patience_seconds() const override { return 1000; }
  std::vector<int> dead_peers() override { return {}; }
  std::unique_ptr<Window> open_window(std::size_t, std::span<const int>) override { return {}; }
  Window* window_at(const void*) override { return nullptr; }

  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    net_.to[to].push_back({tag, {bytes.data, bytes.data + bytes.size}});
    done_.push_back({++last_, {rank_, bytes.size}});
    return {last_};
  }
  Request post_recv(int from, Tag tag, Bytes into, Combine) override {
    open_.push_back({++last_, from, tag, into});
    return {last_};
  }
  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (const auto ended = test(requests[i])) return {i, ended->arrival};
    net_.now = std::max(net_.now, deadline.at);  // nobody else can act in this thread
    return {0, {}, too_late(1 - rank_, rank_, {})};
  }
  std::optional<Ending> test(Request request) override {
    for (auto r = open_.begin(); r != open_.end();) {
      const auto m = find(r->tag);
      if (m == net_.to[rank_].end()) {
        ++r;
        continue;
      }
      copy(r->into.part(0, m->data.size()), {m->data.data(), m->data.size()});
      done_.push_back({r->id, {1 - rank_, m->data.size()}});
      net_.to[rank_].erase(m);
      r = open_.erase(r);
    }
    for (auto d = done_.begin(); d != done_.end(); ++d)
      if (d->id == request.id) {
        const Arrival arrival = d->arrival;
        done_.erase(d);
        return Ending{0, arrival};
      }
    return {};
  }
  std::optional<Arrival> probe(int, Tag tag) override {
    const auto m = find(tag);
    if (m == net_.to[rank_].end()) return {};
    return Arrival{1 - rank_, m->data.size()};
  }
  Request post_bell() override { return {++last_}; }
  void ring() override {}  // nobody else can, in this thread
  bool give_up(Request request) noexcept override {
    std::erase_if(open_, [&](const Open& o) { return o.id == request.id; });
    return std::erase_if(done_, [&](const Done& d) { return d.id == request.id; }) == 0;
  }

 private:
  struct Open {
    std::uint64_t id;
    int from;
    Tag tag;
    Bytes into;
  };
  struct Done {
    std::uint64_t id;
    Arrival arrival;
  };

  std::deque<VirtualNet::Message>::iterator find(Tag tag) {
    auto& box = net_.to[rank_];
    return std::find_if(box.begin(), box.end(),
                        [&](const auto& m) { return m.tag.key() == tag.key(); });
  }

  VirtualNet& net_;
  int rank_;
  std::vector<Open> open_;
  std::vector<Done> done_;
  std::uint64_t last_ = 0;
};

}  // namespace lockstep::testing
