// The half of AD-PSGD that runs beside the computation: the weights x that workers average in
// pairs, and the background jobs that do it. Jobs talk to the peers' jobs alone, and hold the
// rank's lock only to copy and to add.
//
// Used by a rank and its own background at once, and owned by both: a job may outlive the strategy
// that posted it by one message.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "collectives/scratch.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/figures.h"
#include "transport/rank.h"

namespace lockstep {

class AdPsgdExchange {
 public:
  // x starts as a copy of these.
  AdPsgdExchange(const Rank&, Values weights, const MixAudit&);

  // Jobs. An active worker averages with one passive worker, unless that is gone:
  void meet(Transport& lane, int passive);
  // and tells them that it rests;
  void say_rest(Transport& lane, const std::vector<int>& passives);
  // a passive one answers, until all these rest or are gone.
  void answer(Transport& lane, const std::vector<int>& actives);

  // For the rank's thread, which holds the lock:
  Values x() const { return x_.values(); }
  void stepped() { ++steps_; }
  const Contributions& contributions() const { return contributions_; }
  double exchanging_s() const { return exchanging_s_; }  // so far
  bool is_gone(int peer) const { return gone_[peer]; }
  // What exchanges have added to x since this was asked last; nothing where the audit is off.
  std::vector<Term> take_brought() { return std::exchange(brought_, {}); }

  // And which need not hold it: whether answer() has thrown;
  bool failed() const { return failed_; }
  // the strategy goes away, and the job with its next message.
  void abandon() { abandoned_ = true; }

 private:
  void lose(int peer);
  void answer_all(Transport& lane, const std::vector<int>& actives);
  // The passive worker's half of an average. Returns the proof of b.
  Projection mix(int active, const Projection& theirs);
  // Counts the time until now, from which `since` goes on.
  void exchanged_since(double& since);

  Clock& clock_;
  Lock& lock_;
  const MixAudit proof_;
  // Under the lock:
  Scratch x_;
  std::uint64_t steps_ = 0;  // this worker's own
  Contributions contributions_;
  double exchanging_s_ = 0;
  std::vector<bool> gone_;
  std::vector<Term> brought_;
  // The job's own, in the names of the rule: a is the active worker's, b the passive one's.
  Scratch a_, b_;
  std::atomic<bool> failed_ = false, abandoned_ = false;
};

}  // namespace lockstep
