// A rank whose choices pass witnesses (see witness.h), so that a run on real processes can be
// repeated to the bit. What depends on arrival is visible only through: the request that a wait
// ended, a deadline that was missed, the outcomes of test, probe and dead_peers, whether the
// message of a request that was given up passed all the same, decisions by the clock, and the order
// in which the lock is taken.
//
// In a replay: wait_any waits for the recorded request; a test that had found its message waits for
// it, and one that had not does not look; a receive that was given up is not posted, so that its
// message stays, or is posted into memory that nobody sees, if it took the message with it; a send
// that was given up is sent if it had reached its peer; a deadline that was missed is missed at
// once; the lock is taken in the recorded order. Peers that leave or die are not replayed: they
// must do so again.
//
// Rings need no record: they are counted, the same program rings as often, and which wait hears one
// is a choice. Windows need none: their meetings end when all have come.
//
// The lane of scores is left as it is, and what it shares with the rank is kept by another lock
// (see Lock::unrecorded): it looks at the run, and its only ways into it are decisions.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <unordered_map>

#include "transport/decorators/decorator.h"
#include "transport/decorators/witness.h"
#include "transport/rank_view.h"

namespace lockstep {

class Witnessed : public Decorator {
 public:
  // The witness outlives this and sees this lane only.
  Witnessed(Transport& inner, Witness& witness) : Decorator(inner), witness_(witness) {}

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  bool give_up(Request) noexcept override;
  std::vector<int> dead_peers() override;

 private:
  // A receive of a replay that takes a message that nobody sees.
  struct Unseen {
    std::vector<std::byte> memory;
    Pending receive;
  };

  Request opened(Request, std::uint64_t number);
  Ending replay_wait_any(std::span<const Request>);
  Ending replay_wait(Request);

  Witness& witness_;
  std::uint64_t count_ = 0;                                // sends and receives so far
  std::unordered_map<std::uint64_t, std::uint64_t> open_;  // their numbers, by request
  std::list<Unseen> unseen_;
};

class WitnessedLock final : public Lock {
 public:
  // Which lane calls: 0 the rank's own, then those of its background.
  using Who = std::function<int()>;
  // The witness is this lock's alone.
  WitnessedLock(Lock& inner, Witness& witness, Who who, double patience_seconds = kPatienceSeconds)
      : inner_(inner), witness_(witness), who_(std::move(who)), patience_s_(patience_seconds) {}

  // In a replay waits until it is the caller's turn; ReplayDiverged if that does not come.
  void lock() override;
  void unlock() override;
  Lock& unrecorded() override { return inner_; }

  // For any thread: those that wait for their turn throw this.
  void fail(std::exception_ptr);

 private:
  // Longer than anything that another lane may have to wait for before it takes the lock.
  static constexpr double kPatienceSeconds = 3600;

  Lock& inner_;
  Witness& witness_;
  const Who who_;
  const double patience_s_;
  // Of a replay:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::exception_ptr failure_;
};

class WitnessedRank {
 public:
  // Where the witnesses are. Jobs own it too: one may outlive this.
  struct Record {
    virtual ~Record() = default;
    virtual Witness& witness(int stream) = 0;
    // Of a replay: nothing is to be waited for any more.
    virtual void stop() {}
  };

  // Made on the rank's own thread. `rank` outlives this and the jobs.
  WitnessedRank(Rank& rank, std::shared_ptr<Record>);
  Rank& rank() { return view_.rank(); }
  // The rank's own thread has failed: ends what its background waits for in a replay.
  void fail(const std::exception_ptr&);

 private:
  struct Parts;

  const std::shared_ptr<Parts> parts_;
  RankView view_;
};

}  // namespace lockstep
