#include "transport/loopback.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "transport/awake_clock.h"
#include "transport/fabric.h"
#include "transport/failure.h"
#include "transport/loopback_window.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

struct Message {
  int from;
  Tag tag;
  std::size_t size;
  std::vector<std::byte> data;  // empty if hollow
};

struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Message> messages;
  std::map<int, Blame> left;  // who left this lane
};

struct Receive {
  std::uint64_t id;
  int from;
  Tag tag;
  Bytes into;
  Combine combine;
};

}  // namespace

class LoopbackHub {
 public:
  LoopbackHub(int ranks, int lanes, int ranks_per_host, double patience_seconds)
      : ranks(ranks),
        ranks_per_host(ranks_per_host > 0 ? ranks_per_host : ranks),
        patience_seconds(patience_seconds),
        boxes(static_cast<std::size_t>(ranks) * lanes) {}

  Mailbox& box(int rank, int lane) { return boxes[static_cast<std::size_t>(lane) * ranks + rank]; }

  const int ranks, ranks_per_host;
  const double patience_seconds;
  LoopbackWindows windows;

 private:
  std::vector<Mailbox> boxes;
};

namespace {

class Loopback final : public Transport {
 public:
  Loopback(std::shared_ptr<LoopbackHub> hub, int rank, int lane)
      : hub_(std::move(hub)), rank_(rank), lane_(lane), box_(hub_->box(rank, lane)) {}

  ~Loopback() override {
    for (int peer = 0; peer < size(); ++peer) {
      Mailbox& box = hub_->box(peer, lane_);
      std::lock_guard lock(box.mutex);
      box.left[rank_] = blame_;
      box.changed.notify_all();
    }
    hub_->windows.leave(rank_, lane_);
  }

  int rank() const override { return rank_; }
  int size() const override { return hub_->ranks; }
  int host_of(int rank) const override { return rank / hub_->ranks_per_host; }
  double now() const override { return wall_now(); }
  double patience_seconds() const override { return hub_->patience_seconds; }
  std::vector<int> dead_peers() override { return {}; }  // a thread can't die alone

  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    check_peer(to, rank_, size(), "send to");
    Message message{rank_, tag, bytes.size, {}};
    if (bytes.data) message.data.assign(bytes.data, bytes.data + bytes.size);
    Mailbox& box = hub_->box(to, lane_);
    std::lock_guard lock(box.mutex);
    box.messages.push_back(std::move(message));
    box.changed.notify_all();
    done_[++last_id_] = {rank_, bytes.size};
    return {last_id_};
  }

  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    check_peer(from, rank_, size(), "receive from");
    open_.push_back({++last_id_, from, tag, into, combine});
    return {last_id_};
  }

  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    std::unique_lock lock(box_.mutex);
    std::optional<Countdown> time;
    for (;;) {
      progress();
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (const auto arrival = take(requests[i])) return {i, *arrival};
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (auto error = hopeless(requests[i])) return {i, {}, std::move(error)};
      if (!time) time.emplace(deadline.at - now());
      if (time->left() <= 0) {
        if (bells_.contains(requests[0].id)) return {0, {}, too_late(rank_, rank_, {})};
        const Receive& r = *find(requests[0]);
        return {0, {}, too_late(r.from, rank_, r.tag)};
      }
      box_.changed.wait_for(lock, std::chrono::duration<double>(time->nap()));
    }
  }

  std::optional<Ending> test(Request request) override {
    std::lock_guard lock(box_.mutex);
    progress();
    if (const auto arrival = take(request)) return Ending{0, *arrival};
    if (auto error = hopeless(request)) return Ending{0, {}, std::move(error)};
    return {};
  }

  std::optional<Arrival> probe(int from, Tag tag) override {
    std::lock_guard lock(box_.mutex);
    progress();
    const auto m = first_match(from, tag);
    if (m == box_.messages.end()) return {};
    return Arrival{m->from, m->size};
  }

  bool give_up(Request request) noexcept override {
    std::lock_guard lock(box_.mutex);
    if (done_.erase(request.id) || failed_.erase(request.id)) return false;
    bells_.erase(request.id);
    std::erase_if(open_, [&](const Receive& r) { return r.id == request.id; });
    return true;
  }

  Request post_bell() override {
    bells_.insert(++last_id_);
    return {last_id_};
  }
  void ring() override {
    std::lock_guard lock(box_.mutex);
    ++rings_;
    box_.changed.notify_all();
  }

  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override {
    return hub_->windows.open(*this, lane_, bytes, members);
  }
  Window* window_at(const void* address) override {
    return hub_->windows.at(*this, lane_, address);
  }

 private:
  std::deque<Message>::iterator first_match(int from, Tag tag) {
    return std::find_if(box_.messages.begin(), box_.messages.end(), [&](const Message& m) {
      return (from == kAnyRank || from == m.from) && m.tag.key() == tag.key();
    });
  }

  // Gives waiting messages to open receives, in the order these were posted.
  void progress() {
    for (auto r = open_.begin(); r != open_.end();) {
      const auto m = first_match(r->from, r->tag);
      if (m == box_.messages.end()) {
        ++r;
        continue;
      }
      if (m->tag.format != r->tag.format)
        failed_.emplace(r->id, wrong_format(m->from, m->tag.format, rank_, r->tag.format, r->tag));
      else if (m->size > r->into.size)
        failed_.emplace(r->id, too_long(m->from, m->size, rank_, r->into.size, r->tag));
      else
        land(*r, *m);
      box_.messages.erase(m);
      r = open_.erase(r);
    }
  }

  void land(const Receive& r, const Message& m) {
    const Bytes into = r.into.part(0, m.size);
    if (r.combine && into.data && !m.data.empty())
      r.combine(into.data, m.data.data(), m.size);
    else if (!m.data.empty())
      copy(into, {m.data.data(), m.size});
    done_[r.id] = {m.from, m.size};
  }

  std::optional<Arrival> take(Request request) {
    if (const auto f = failed_.find(request.id); f != failed_.end()) {
      const TransportError error = f->second;
      failed_.erase(f);
      throw error;
    }
    if (rings_ > 0 && bells_.erase(request.id)) {
      --rings_;
      return Arrival{rank_, 0};
    }
    const auto d = done_.find(request.id);
    if (d == done_.end()) return {};
    const Arrival arrival = d->second;
    done_.erase(d);
    return arrival;
  }

  // Ends the request if its peer is gone.
  std::optional<TransportError> hopeless(Request request) {
    if (bells_.contains(request.id)) return {};
    const auto r = find(request);
    const auto left = box_.left.find(r->from);
    if (left == box_.left.end()) return {};
    const TransportError error = gone(r->from, left->second, rank_, r->tag);
    blame_ = blame_of(error);
    open_.erase(r);
    return error;
  }

  std::deque<Receive>::iterator find(Request request) {
    const auto r = std::find_if(open_.begin(), open_.end(),
                                [&](const Receive& x) { return x.id == request.id; });
    if (r == open_.end()) throw InternalError(fmt::format("request {} is not open", request.id));
    return r;
  }

  std::shared_ptr<LoopbackHub> hub_;
  const int rank_, lane_;
  Mailbox& box_;
  std::deque<Receive> open_;
  std::map<std::uint64_t, Arrival> done_;
  std::map<std::uint64_t, TransportError> failed_;
  std::set<std::uint64_t> bells_;
  std::uint64_t rings_ = 0;  // not yet heard; under the box's mutex
  std::uint64_t last_id_ = 0;
  Blame blame_;
};

}  // namespace

std::shared_ptr<LoopbackHub> make_loopback_hub(int ranks, int lanes, int ranks_per_host,
                                               double patience_seconds) {
  return std::make_shared<LoopbackHub>(ranks, lanes, ranks_per_host, patience_seconds);
}

std::unique_ptr<Transport> open_loopback(std::shared_ptr<LoopbackHub> hub, int rank, int lane) {
  return std::make_unique<Loopback>(std::move(hub), rank, lane);
}

void run_loopback(int ranks, const Body& body, const FabricOptions& options) {
  const auto hub = make_loopback_hub(ranks, options.lanes.count(), options.ranks_per_host,
                                     options.patience_seconds);
  const auto lanes = [&](int rank) {
    std::vector<std::unique_ptr<Transport>> opened;
    for (int lane = 0; lane < options.lanes.count(); ++lane)
      opened.push_back(open_loopback(hub, rank, lane));
    return opened;
  };
  run_threads(ranks, lanes, body, options);
}

}  // namespace lockstep
