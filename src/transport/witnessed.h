// The seam for choices that depend on arrival. All such outcomes are visible only through: the
// index wait_any ended, deadlines missed, the outcomes of test, probe and dead_peers, what a recv
// that was given up took with it, and the order in which a Lock is taken. These two pass each one
// to a Witness, which may write it down or insist on what was written.
//
// In a replay: wait_any waits for the recorded index; a test that had found the message waits for
// it, one that had not does not look; a recv that was given up is never posted, so that its message
// stays, or, if it took its message with it, is posted into memory that nobody sees; a deadline
// that was missed is missed at once. Peers that left or died are not replayed: they must do so
// again (the same program, the same faults).
#pragma once

#include <list>
#include <unordered_map>

#include "transport/decorator.h"
#include "transport/rank.h"
#include "transport/witness.h"

namespace lockstep {

class Witnessed : public Decorator {
 public:
  // The witness outlives this and sees this lane only.
  Witnessed(Transport& inner, Witness& witness) : Decorator(inner), witness_(witness) {}

  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  bool give_up(Request) noexcept override;
  std::vector<int> dead_peers() override;

 private:
  // A recv of a replay that takes a message that nobody sees.
  struct Unseen {
    std::vector<std::byte> memory;
    Pending receive;
  };

  Ending replay_wait_any(std::span<const Request>);
  Ending replay_wait(Request);

  Witness& witness_;
  std::uint64_t receives_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> posted_;  // number of a receive, by request
  std::list<Unseen> unseen_;
};

class WitnessedLock final : public Lock {
 public:
  // Who calls: 0 the rank, 1 its background. Where both are threads it tells threads apart, in
  // simulation actors. `pause` lets others run between two looks.
  using Who = std::function<int()>;
  using Pause = std::function<void()>;
  // The witness is this lock's alone.
  WitnessedLock(Lock& inner, Witness& witness, const Clock& clock, Who who, Pause pause)
      : inner_(inner),
        witness_(witness),
        clock_(clock),
        who_(std::move(who)),
        pause_(std::move(pause)) {}

  // In a replay waits until it is the caller's turn; ReplayDiverged if that does not come.
  void lock() override;
  void unlock() override { inner_.unlock(); }

 private:
  Lock& inner_;
  Witness& witness_;
  const Clock& clock_;
  Who who_;
  Pause pause_;
};

}  // namespace lockstep
