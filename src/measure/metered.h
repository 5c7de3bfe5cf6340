// What a rank sends and receives, counted: on one lane, in its background, on all of its lanes.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "measure/ledger.h"
#include "transport/decorators/decorator.h"
#include "transport/rank_view.h"

namespace lockstep {

// Keeps apart who changes a ledger and who reads it, for moments. For any thread. Not a Lock: that
// may pass time in simulation, which giving up a request must not.
class LedgerGuard {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true);
  }
  void unlock() {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic_flag taken_;
};

// Counts what passes: a send's payload when it is posted (taken back if it is given up before it is
// on its way), a receive's when it has completed; and what Window::moved reports: read from a
// peer's memory counts as received, written to it as sent, without a message. A message that is
// lost with a receive that is given up is not counted.
class Metered : public Decorator {
 public:
  // The ledger has a line for each rank of `inner`, outlives this, and belongs to the same thread,
  // or is only touched under `guard`.
  Metered(Transport& inner, Ledger& ledger, LedgerGuard* guard = nullptr)
      : Decorator(inner), ledger_(ledger), guard_(guard) {}

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  bool give_up(Request) noexcept override;

 private:
  class View;
  struct Open {
    Purpose purpose;
    int to = -1;  // -1: a receive
    std::size_t bytes = 0;
  };

  void ended(Request, const Ending&);
  std::unique_ptr<WindowView> view_of(Window&) override;

  template <class F>
  void guarded(F&& change) {
    if (guard_) guard_->lock();
    change();
    if (guard_) guard_->unlock();
  }

  Ledger& ledger_;
  LedgerGuard* const guard_;
  std::unordered_map<std::uint64_t, Open> open_;
};

// Counts what a rank's background jobs send and receive, as Metered does for its own lane. The
// inner background outlives the jobs.
class MeteredBackground final : public WrappedJobs {
 public:
  MeteredBackground(Background& inner, int ranks)
      : MeteredBackground(inner, std::make_shared<Book>(ranks)) {}

  Ledger ledger() const {
    const std::lock_guard hold(book_->guard);
    return book_->ledger;
  }

 private:
  struct Book {
    explicit Book(int ranks) : ledger(ranks) {}
    Ledger ledger;
    LedgerGuard guard;
  };
  MeteredBackground(Background& inner, std::shared_ptr<Book> book)
      : WrappedJobs(inner,
                    [book](Transport& lane, const Job& job) {
                      Metered metered(lane, book->ledger, &book->guard);
                      job(metered);
                    }),
        book_(std::move(book)) {}

  const std::shared_ptr<Book> book_;  // a job's too: one may outlive who posted it
};

// A rank all of whose lanes are counted: its own, those of its background and that of its scores.
// Sums are of the whole run, also of what a resumed run had moved before.
class MeteredRank {
 public:
  // `rank` outlives this, and this all that is made with rank().
  explicit MeteredRank(Rank& rank);
  MeteredRank(const MeteredRank&) = delete;

  Rank& rank() { return view_.rank(); }
  // Moved in training steps. By the strategy: gradients and weights, by message or in shared
  // memory; where there were no messages, a rank moved what it read from and wrote to its peers'
  // memory. And between the stages of a pipeline: passed().
  Traffic exchanged() const;
  Traffic passed() const { return total_of(all(), Purpose::activations); }
  // Moved for all else: initial weights, scores, checkpoints, control.
  Traffic other() const;
  // What the run that this one resumes had moved.
  void restore(const Traffic& exchanged, const Traffic& other);

 private:
  Ledger all() const;

  Ledger ledger_;
  Metered metered_;
  std::vector<const MeteredBackground*> lanes_;  // of view_
  RankView view_;
  Traffic exchanged_before_, other_before_;
};

}  // namespace lockstep
