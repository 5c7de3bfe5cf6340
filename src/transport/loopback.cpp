#include "transport/loopback.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "transport/awake_clock.h"
#include "transport/channels.h"
#include "transport/failure.h"
#include "transport/operations.h"
#include "transport/plain_window.h"
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

struct LoopbackOperation : WireOperation {
  std::optional<Arrival> arrival;       // it has come to its end,
  std::optional<TransportError> error;  // or to this
};

// Where the members of a window meet on one lane.
struct LoopbackMeeting {
  explicit LoopbackMeeting(std::size_t members) : arrivals(members), words(members) {}

  std::vector<std::uint64_t> arrivals;  // how many rounds each member came to
  std::vector<Window::Words> words;
};

class Loopback;

class LoopbackWindow final : public PlainWindow<LoopbackWindow, Loopback, LoopbackMeeting> {
 public:
  using PlainWindow::PlainWindow;
  ~LoopbackWindow() override;

  Words said(int rank) const override { return words_[index_of(rank)]; }
  int meet(const Words&) override;

 private:
  void come(std::unique_lock<std::mutex>&, Countdown&);

  std::vector<Words> words_;  // of the last meeting
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
  struct {
    std::mutex mutex;  // of all below, and of all meetings
    std::condition_variable changed;
    LoopbackWindow::All all;
    std::set<std::pair<int, int>> left;  // (rank, lane)
  } windows;

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
    std::lock_guard lock(hub_->windows.mutex);
    hub_->windows.left.insert({rank_, lane_});
    hub_->windows.changed.notify_all();
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
    LoopbackOperation& op = operations_.add(to, tag);
    op.arrival = {rank_, bytes.size};
    return {op.id};
  }

  Request post_recv(int from, Tag tag, Bytes into, Combine combine) override {
    check_peer(from, rank_, size(), "receive from");
    receives_.push_back(&operations_.add(from, tag, into, combine));
    return {receives_.back()->id};
  }

  Ending wait_any(std::span<const Request> requests, Deadline deadline) override {
    std::unique_lock lock(box_.mutex);
    std::optional<Countdown> time;
    for (;;) {
      progress();
      if (auto ended = operations_.first(requests, [&](auto& op) { return take(op); }))
        return std::move(*ended);
      if (auto gone = operations_.first(requests, [&](auto& op) { return hopeless(op); }))
        return std::move(*gone);
      if (!time) time.emplace(deadline.at - now());
      if (time->left() <= 0) return operations_.late(requests, rank_);
      box_.changed.wait_for(lock, std::chrono::duration<double>(time->nap()));
    }
  }

  std::optional<Ending> test(Request request) override {
    std::lock_guard lock(box_.mutex);
    progress();
    LoopbackOperation& op = operations_.find(request);
    auto ended = take(op);
    return ended ? ended : hopeless(op);
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
    LoopbackOperation* const op = operations_.find_open(request);
    if (!op) return true;
    const bool nothing_came = !op->arrival && !op->error;
    std::erase(receives_, op);
    operations_.end(*op);
    return nothing_came;
  }

  Request post_bell() override { return {operations_.add_bell(rank_).id}; }
  void ring() override {
    std::lock_guard lock(box_.mutex);
    ++rings_;
    box_.changed.notify_all();
  }

  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override {
    std::unique_lock lock(hub_->windows.mutex);
    auto window = hub_->windows.all.open(*this, bytes, members);
    lock.unlock();
    window->meet({});
    return window;
  }
  Window* window_at(const void* address) override {
    std::lock_guard lock(hub_->windows.mutex);
    return hub_->windows.all.at(*this, address);
  }

  int lane() const { return lane_; }
  LoopbackHub& hub() { return *hub_; }

 private:
  std::deque<Message>::iterator first_match(int from, Tag tag) {
    return std::find_if(box_.messages.begin(), box_.messages.end(), [&](const Message& m) {
      return (from == kAnyRank || from == m.from) && m.tag.key() == tag.key();
    });
  }

  // Gives waiting messages to open receives, in the order these were posted.
  void progress() {
    std::erase_if(receives_, [&](LoopbackOperation* r) {
      const auto m = first_match(r->peer, r->tag);
      if (m == box_.messages.end()) return false;
      r->error = misfit(m->from, m->tag.format, m->size, rank_, r->tag, r->into.size);
      if (!r->error) land(*r, *m);
      box_.messages.erase(m);
      return true;
    });
  }

  static void land(LoopbackOperation& r, const Message& m) {
    const Bytes into = r.into.part(0, m.size);
    if (r.combine && into.data && !m.data.empty())
      r.combine(into.data, m.data.data(), m.size);
    else if (!m.data.empty())
      copy(into, {m.data.data(), m.size});
    r.arrival = {m.from, m.size};
  }

  std::optional<Ending> take(LoopbackOperation& op) {
    if (op.is_bell && rings_ > 0) {
      --rings_;
      op.arrival = {rank_, 0};
    }
    const auto [arrival, error] = std::pair(op.arrival, op.error);
    if (arrival || error) operations_.end(op);
    if (error) throw TransportError(*error);
    return arrival ? std::optional(Ending{0, *arrival}) : std::nullopt;
  }

  // Ends the receive if its peer is gone.
  std::optional<Ending> hopeless(LoopbackOperation& r) {
    const auto left = box_.left.find(r.peer);
    if (r.is_bell || left == box_.left.end()) return {};
    const TransportError error = gone(r.peer, left->second, rank_, r.tag);
    blame_ = blame_of(error);
    std::erase(receives_, &r);
    operations_.end(r);
    return Ending{0, {}, error};
  }

  std::shared_ptr<LoopbackHub> hub_;
  const int rank_, lane_;
  Mailbox& box_;
  Operations<LoopbackOperation> operations_;
  std::vector<LoopbackOperation*> receives_;  // that have no message yet, in the order posted
  std::uint64_t rings_ = 0;                   // not yet heard; under the box's mutex
  Blame blame_;
};

LoopbackWindow::~LoopbackWindow() {
  if (!opened()) return;
  std::lock_guard lock(who_.hub().windows.mutex);
  close();
}

int LoopbackWindow::meet(const Words& words) {
  Countdown time(who_.patience_seconds());
  std::unique_lock lock(who_.hub().windows.mutex);
  meeting_.words[index_] = words;
  come(lock, time);
  words_ = meeting_.words;
  come(lock, time);  // nobody's words may be overwritten before all have read them
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (words_[i] != words) return members_[i];
  return -1;
}

void LoopbackWindow::come(std::unique_lock<std::mutex>& lock, Countdown& time) {
  auto& windows = who_.hub().windows;
  const std::uint64_t round = ++meeting_.arrivals[index_];
  windows.changed.notify_all();
  for (std::size_t i = 0; i < members_.size(); ++i)
    while (meeting_.arrivals[i] < round) {
      if (windows.left.contains({members_[i], who_.lane()}))
        throw departed(members_[i], who_.rank(), channels::kMeeting);
      if (time.left() <= 0) throw too_late(members_[i], who_.rank(), channels::kMeeting);
      windows.changed.wait_for(lock, std::chrono::duration<double>(time.nap()));
    }
}

}  // namespace

std::shared_ptr<LoopbackHub> make_loopback_hub(int ranks, int lanes, int ranks_per_host,
                                               double patience_seconds) {
  return std::make_shared<LoopbackHub>(ranks, lanes, ranks_per_host, patience_seconds);
}

std::unique_ptr<Transport> open_loopback(std::shared_ptr<LoopbackHub> hub, int rank, int lane) {
  return std::make_unique<Loopback>(std::move(hub), rank, lane);
}

}  // namespace lockstep
