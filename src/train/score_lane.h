// Scores of a run whose workers go apart, taken on the lane of scores while all of them train.
//
// Every worker keeps the copies that it takes of its weights on a shelf. One worker, the scorer,
// asks the pacemaker for its first copy after the last score and then all others, one after the
// other, for their copies of the same steps. It folds each into the mean as it arrives, answers the
// test set with a network of its own, and tells the score to all workers, which then clear their
// shelves. So the scorer needs memory for a few copies, however many workers there are, and the
// others for the copies that are not scored yet.
//
// Only the scorer has to know that it is one: where it dies, another one asks anew for all that is
// still on the shelves. A worker that is gone has no part in later scores. One that rests answers
// with the copy that it took when it came to rest.
//
// When all have met each worker takes a copy that is kept apart from the shelf: of what the run has
// come to. It is asked for by a word of its own, so scores of the shelf, however late they come,
// leave it alone.
//
// Used by a rank and its lane of scores at once, and owned by both: a job may outlive the training
// that posted it by a moment.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "train/evaluate.h"
#include "train/run_state.h"

namespace lockstep {

// Picks, of these workers (ranks of the job), the one that sets the pace of scores: the one with
// the most samples in an epoch, the first of several. Any thread may call it.
using Pacemaker = std::function<int(const std::vector<int>& workers)>;

class ScoreLane {
 public:
  // What a score is made known by; called by the thread that calls take_finished() or, while the
  // rank rests, by the lane. `here`: it was scored on this rank.
  using Keep = std::function<void(Score&, std::uint64_t run_samples, bool here)>;
  // For copies of so many weights and statistics. The experiment outlives the jobs.
  ScoreLane(const Rank&, const Experiment&, Pacemaker, std::size_t weights, std::size_t statistics,
            Keep);
  ScoreLane(const ScoreLane&) = delete;

  struct Finished {
    Score score;
    std::uint64_t run_samples = 0;
    bool here = true;
    bool of_all_that_met = false;
  };
  // Jobs. The first answers the scorer until nobody asks any more (see close()), or is the scorer
  // until all have met (see finish()). Then these bring the next copies of the shelves together, if
  // there are any, or those of all that met;
  void work(Transport& lane);
  void gather_next(Transport& lane);
  void gather_met(Transport& lane);
  // and this one tells the other workers of the score.
  void tell(Transport& lane, const Finished&);

  // All below is for the rank's thread. Ring after what changes something.
  //
  // The rank trains, from now on.
  void go();
  void put(std::shared_ptr<const ScoreCopy>);
  // It rests, and later scores take this copy of it.
  void rest(std::shared_ptr<const ScoreCopy>);
  // All have met: this is its copy of what the run has come to.
  void met(std::shared_ptr<const ScoreCopy>);
  // It is the scorer, from now on.
  void scores_with(std::unique_ptr<Examiner>);
  bool scores() const { return scores_; }
  // All have met: from now on the rank's thread scores, which has nothing better to do. `at_once`:
  // a score that is under way is given up, and is among the next again.
  void finish(bool at_once);
  struct Gathered {
    Model model;
    Score score;
    std::uint64_t run_samples = 0;
    std::uint64_t left_out = 0;
    bool of_all_that_met = false;
  };
  // What the last job brought together, once; none: there was nothing.
  std::optional<Gathered> take_gathered() { return std::exchange(gathered_, {}); }
  Finished score(const Gathered&);
  // Nobody asks any more.
  void close() { set(closing_); }
  // The training ends, and the job when it is rung.
  void abandon() { set(abandoned_); }

  // Steps of which the scorer waits for a copy that nobody has asked this worker for; 0: none.
  std::uint64_t take_wanted() { return wanted_.exchange(0); }
  // Is a copy of those steps on the shelf, or scored?
  bool knows(std::uint64_t steps);
  bool has_scored(std::uint64_t steps);
  // Is there a score of the copies of all that met?
  bool has_scored_met() { return is_set(met_is_scored_); }
  // The scorer, while it evaluates and copies of this pacemaker wait for that; else -1.
  int held_up_by();
  // May one more copy of this pacemaker wait? Too many do where slower workers have none yet.
  bool has_room();
  // Makes known what has been scored since the last call. Costs next to nothing if nothing has.
  void take_finished();
  struct Losses {
    std::uint64_t steps = 0;
    double sum = 0, samples = 0;
  };
  // What of the losses that copies carried since the last call is part of a score.
  Losses take_scored_losses();
  // Has a job thrown?
  bool failed() const { return failed_; }

 private:
  class Job;
  // A scorer's question, or what it tells.
  struct Word {
    enum Kind : std::uint32_t {
      next,       // your first copy after those steps as a pacemaker, if one comes
      exact,      // your copy of those steps
      met,        // your copy of when all met
      evaluates,  // all copies are here
      done,       // and this is the score: `bytes` of text follow
      done_met    // the same of all that met
    };
    std::uint32_t kind = next, bytes = 0;
    std::uint64_t steps = 0, run_samples = 0;
  };
  struct Answer {
    ScoreCopy::About about;
    std::shared_ptr<const ScoreCopy> copy;  // none: there will be none
  };

  template <class F>
  void as_job(Transport& lane, F&&);
  template <class Flag>
  void set(Flag& flag) {
    const std::lock_guard hold(lock_);
    flag = true;
  }
  bool is_set(const bool& flag);
  // Nothing: it was given up.
  std::optional<Finished> score_while(const Gathered&, const std::function<bool()>& goes_on);
  std::size_t waiting() const;
  // Nothing: not yet.
  std::optional<Answer> answer_to(const Word&);
  Answer given(const std::shared_ptr<const ScoreCopy>&, std::uint64_t steps);
  void add_finished(const Finished&);
  void make_known();

  Lock& lock_;
  const int self_;
  const Experiment& experiment_;
  const Pacemaker pacemaker_;
  const int workers_;
  const std::size_t count_, statistics_;  // numbers of a copy
  const Keep keep_;
  std::atomic<std::uint64_t> wanted_ = 0;
  std::atomic<bool> scores_ = false, failed_ = false, abandoned_ = false, hurries_ = false,
                    has_finished_ = false;
  // Under the lock:
  std::map<std::uint64_t, std::shared_ptr<const ScoreCopy>> shelf_;  // by steps
  std::shared_ptr<const ScoreCopy> resting_, met_;
  std::uint64_t done_ = 0;  // steps of the last score
  int scorer_ = -1;         // the last one that asked
  bool evaluating_ = false, met_is_scored_ = false;
  bool finishing_ = false, closing_ = false;
  Losses given_, scored_;  // in the last answer, and in scores
  std::vector<Finished> finished_;
  // The scorer's:
  std::set<int> gone_;  // workers
  std::unique_ptr<Examiner> examiner_;
  std::optional<Gathered> gathered_;
};

}  // namespace lockstep
