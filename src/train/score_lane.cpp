#include "train/score_lane.h"

#include <algorithm>
#include <utility>

#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kWord = channels::kScoreWord, kText = channels::kScoreText,
              kAbout = channels::kScoreAbout, kWeights = channels::kScoreWeights,
              kStatistics = channels::kScoreStatistics, kModel = channels::kScoreModel;

// Copies of a pacemaker that are not scored yet: one that is being evaluated and one that waits for
// it; and where the scorer waits for copies of workers that are slower, eight of large models, and
// more of small ones.
constexpr std::size_t kMostBehindEvaluation = 2, kMostInAll = 8, kMostBytes = 64 << 20;

struct Abandoned {};

template <class Run>
auto bytes_in(Run& run) {
  if constexpr (std::is_const_v<Run>)
    return ConstBytes(run.data(), run.size() * sizeof(run[0]));
  else
    return Bytes{reinterpret_cast<std::byte*>(run.data()), run.size() * sizeof(run[0])};
}

// A copy, wherever it lies; valid until the next one is fetched.
struct Part {
  ScoreCopy::About about;
  const ScoreCopy* copy = nullptr;
};

}  // namespace

// The lane's side. No call on the lane is made under the lock.
class ScoreLane::Job {
 public:
  Job(ScoreLane& desk, Transport& lane) : desk_(desk), lane_(lane) {}
  Job(const Job&) = delete;

  void run() {
    for (;;) {
      answer();
      {
        const std::lock_guard hold(desk_.lock_);
        if (desk_.closing_ || (desk_.finishing_ && desk_.scores_)) return;
      }
      std::optional<Gathered> gathered;
      if (desk_.scores_) gathered = gather_next();
      if (gathered)
        score(*gathered);
      else
        step();
    }
  }

  std::optional<Gathered> gather_next() {
    for (;;) {
      Word next;
      {
        const std::lock_guard hold(desk_.lock_);
        next.steps = desk_.done_;
      }
      pacemaker_ = desk_.pacemaker_(living());
      const std::optional<Part> first = fetch(pacemaker_, next);
      if (!first) continue;  // it is gone, and another sets the pace
      if (!first->copy) return {};
      return gather(pacemaker_, *first, {Word::exact, 0, first->about.steps, 0});
    }
  }

  Gathered gather_met() {
    const Word word{Word::met, 0, 0, 0};
    return gather(desk_.self_, *fetch(desk_.self_, word), word);
  }

  void tell_all(const Finished& finished) {
    const std::string text = to_json(finished.score).dump();
    const Word word{finished.of_all_that_met ? Word::done_met : Word::done,
                    static_cast<std::uint32_t>(text.size()), finished.score.steps,
                    finished.run_samples};
    for (const int worker : living())
      if (worker != desk_.self_) tell(worker, word, text);
  }

 private:
  void score(const Gathered& gathered) {
    {
      const std::lock_guard hold(desk_.lock_);
      desk_.evaluating_ = true;
    }
    if (pacemaker_ != desk_.self_) tell(pacemaker_, {Word::evaluates, 0, gathered.score.steps, 0});
    const std::optional<Finished> finished =
        desk_.score_while(gathered, [&] { return !desk_.abandoned_ && !desk_.hurries_; });
    if (finished) tell_all(*finished);
  }

  struct Asked {
    int by;
    Word word;
  };

  std::vector<int> living() {
    const std::vector<int> dead = lane_.dead_peers();
    std::vector<int> living;
    for (int w = 0; w < desk_.workers_; ++w)
      if (!desk_.gone_.contains(w) && !std::ranges::binary_search(dead, w)) living.push_back(w);
    return living;
  }

  // Until all have ended. False: the peer is gone; or all have met, so that its lane has nothing
  // else to do, and the patience is over; or nobody asks any more, unless what is received
  // `is_sent`.
  bool end(std::vector<Pending>& open, bool is_sent = false) {
    bool well = true;
    for (Pending& pending : open) well &= ends(pending, is_sent);
    open.clear();
    return well;
  }

  bool ends(Pending& pending, bool is_sent) {
    for (;;) {
      const bool all_have_met = desk_.is_set(desk_.finishing_);
      if (desk_.abandoned_) throw Abandoned{};
      bool too_late = !is_sent && desk_.is_set(desk_.closing_);
      if (!bell_) bell_ = lane_.bell();
      const Request open[] = {pending.request(), bell_.request()};
      const Ending ending =
          lane_.wait_any(open, too_late ? Deadline{lane_.now()} : lane_.patience());
      if (ending.late()) {
        too_late = too_late || all_have_met;
      } else if (ending.index == 0) {
        pending.ended();
        return ending.arrived();
      } else {
        bell_.ended();
        has_rung_ = true;  // step() deals with that
      }
      if (too_late) return false;
    }
  }

  // Waits for a word, or for the rank's thread to ring.
  void step() {
    if (desk_.abandoned_) throw Abandoned{};
    if (std::exchange(has_rung_, false)) return;
    if (!bell_) bell_ = lane_.bell();
    if (!heard_ && ear_ < desk_.self_) heard_ = lane_.recv(ear_, kWord, bytes_of(word_));
    std::vector<Request> open;  // a word comes first: a bell may say that this is the end
    if (heard_) open.push_back(heard_.request());
    open.push_back(bell_.request());
    const Ending ending = wait_any_while_they_live(lane_, open);
    if (bell_.is(open[ending.index])) return bell_.ended();
    heard_.ended();
    if (ending.gone())
      ++ear_;
    else
      hear(ear_, word_);
  }

  void hear(int from, const Word& word) {
    if (word.kind <= Word::met) {
      asked_.push_back({from, word});
      const std::lock_guard hold(desk_.lock_);
      if (std::exchange(desk_.scorer_, from) != from) desk_.evaluating_ = false;
    } else if (word.kind == Word::evaluates) {
      const std::lock_guard hold(desk_.lock_);
      desk_.evaluating_ = true;
    } else {
      std::string text(word.bytes, ' ');
      Pending coming = lane_.recv(from, kText, bytes_in(text));
      if (ends(coming, true))
        desk_.add_finished({score_from_json(nlohmann::json::parse(text)), word.run_samples, false,
                            word.kind == Word::done_met});
    }
  }

  // All that was asked and can be answered by now.
  void answer() {
    for (std::size_t i = 0; i < asked_.size();) {
      const Asked asked = asked_[i];
      const std::optional<Answer> answer = desk_.answer_to(asked.word);
      if (!answer) {
        ++i;
        continue;
      }
      asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
      std::vector<Pending> open;
      const auto send = [&](Tag tag, ConstBytes bytes) {
        open.push_back(lane_.send(asked.by, tag, bytes));
      };
      send(kAbout, {&answer->about, sizeof answer->about});
      if (answer->copy) {
        send(kWeights, bytes_in(answer->copy->weights));
        if (desk_.statistics_ > 0) send(kStatistics, bytes_in(answer->copy->statistics));
        if (answer->about.has_model) send(kModel, bytes_in(answer->copy->model));
      }
      end(open);  // a scorer that is gone needs no answer
    }
  }

  void tell(int worker, const Word& word, const std::string& text = {}) {
    std::vector<Pending> open;
    open.push_back(lane_.send(worker, kWord, {&word, sizeof word}));
    if (!text.empty()) open.push_back(lane_.send(worker, kText, bytes_in(text)));
    end(open);
  }

  // That worker's copy; without one: it has none any more. Nothing: it is gone.
  std::optional<Part> fetch(int worker, const Word& word) {
    if (worker == desk_.self_) {
      for (;;) {
        if (const std::optional<Answer> found = desk_.answer_to(word)) {
          own_ = found->copy;
          return Part{found->about, own_.get()};
        }
        step();
      }
    }
    std::optional<Part> part = fetch_from(worker, word);
    if (!part) desk_.gone_.insert(worker);
    return part;
  }

  std::optional<Part> fetch_from(int worker, const Word& word) {
    Part part;
    std::vector<Pending> open;
    const auto recv = [&](Tag tag, Bytes into) { open.push_back(lane_.recv(worker, tag, into)); };
    open.push_back(lane_.send(worker, kWord, {&word, sizeof word}));
    recv(kAbout, bytes_of(part.about));
    if (!end(open)) return {};
    if (part.about.is_there == 0) return part;
    landed_.weights.resize(desk_.count_);
    landed_.statistics.resize(desk_.statistics_);
    landed_.model.resize(part.about.has_model ? desk_.count_ : 0);
    recv(kWeights, bytes_in(landed_.weights));
    if (desk_.statistics_ > 0) recv(kStatistics, bytes_in(landed_.statistics));
    if (part.about.has_model) recv(kModel, bytes_in(landed_.model));
    if (!end(open)) return {};
    part.copy = &landed_;
    return part;
  }

  // All copies that answer `word`, of which the first is there. Where all have met the time is that
  // of the last of them; else that of the worker that sets the pace.
  Gathered gather(int from, const Part& first, const Word& word) {
    const ScoreCopy::About lead = first.about;
    MeanOfCopies mean(first.about, *first.copy, desk_.experiment_.config.audit);
    std::vector<double> totals(3);
    double training_s = 0;
    std::uint64_t left_out = 0;
    const auto count = [&](const ScoreCopy::About& about) {
      totals[0] += about.loss_sum;
      totals[1] += about.loss_samples;
      totals[2] += about.bytes;
      training_s = std::max(training_s, about.training_s);
      left_out += about.left_out;
    };
    count(lead);
    for (const int worker : living()) {
      if (worker == from) continue;
      const std::optional<Part> part = fetch(worker, word);
      if (!part) continue;
      mean.add(part->about, *part->copy);
      count(part->about);
    }
    const bool met = word.kind == Word::met;
    Gathered all{mean.model(),
                 ProgressLog::score_from(totals, lead.steps, lead.ends_epoch != 0,
                                         met ? training_s : lead.training_s),
                 lead.run_samples, left_out, met};
    all.score.consensus_distance = mean.distance(all.model.weights);
    return all;
  }

  ScoreLane& desk_;
  Transport& lane_;
  bool has_rung_ = false;
  int pacemaker_ = 0;  // whose copy was gathered last
  // The scorer is the first worker that is left: so this one is listened to, until it is gone.
  int ear_ = 0;
  Word word_;  // what it says next lands here
  Pending bell_, heard_;
  std::vector<Asked> asked_;
  ScoreCopy landed_;
  std::shared_ptr<const ScoreCopy> own_;
};

ScoreLane::ScoreLane(const Rank& rank, const Experiment& experiment, Pacemaker pacemaker,
                     std::size_t weights, std::size_t statistics, Keep keep)
    : lock_(rank.lock.unrecorded()),
      self_(rank.rank()),
      experiment_(experiment),
      pacemaker_(std::move(pacemaker)),
      workers_(experiment.config.workers),
      count_(weights),
      statistics_(statistics),
      keep_(std::move(keep)) {}

template <class F>
void ScoreLane::as_job(Transport& lane, F&& f) {
  try {
    Job job(*this, lane);
    f(job);
  } catch (const Abandoned&) {
  } catch (const std::exception&) {
    failed_ = true;
    throw;
  }
}

void ScoreLane::work(Transport& lane) {
  as_job(lane, [](Job& job) { job.run(); });
}

void ScoreLane::gather_next(Transport& lane) {
  as_job(lane, [&](Job& job) { gathered_ = job.gather_next(); });
}

void ScoreLane::gather_met(Transport& lane) {
  as_job(lane, [&](Job& job) { gathered_ = job.gather_met(); });
}

void ScoreLane::tell(Transport& lane, const Finished& finished) {
  as_job(lane, [&](Job& job) { job.tell_all(finished); });
}

std::optional<ScoreLane::Finished> ScoreLane::score_while(const Gathered& gathered,
                                                          const std::function<bool()>& goes_on) {
  Finished finished{gathered.score, gathered.run_samples, true, gathered.of_all_that_met};
  if (!evaluate(*examiner_, experiment_, gathered.model, finished.score, goes_on)) return {};
  add_finished(finished);
  return finished;
}

ScoreLane::Finished ScoreLane::score(const Gathered& gathered) {
  return *score_while(gathered, [] { return true; });
}

void ScoreLane::go() {
  const std::lock_guard hold(lock_);
  resting_.reset();
  met_.reset();
  finishing_ = closing_ = hurries_ = met_is_scored_ = false;
}

void ScoreLane::put(std::shared_ptr<const ScoreCopy> copy) {
  const std::lock_guard hold(lock_);
  const std::uint64_t steps = copy->about.steps;
  if (steps > done_) shelf_[steps] = std::move(copy);
}

void ScoreLane::rest(std::shared_ptr<const ScoreCopy> copy) {
  const std::lock_guard hold(lock_);
  resting_ = std::move(copy);
}

void ScoreLane::met(std::shared_ptr<const ScoreCopy> copy) {
  const std::lock_guard hold(lock_);
  met_ = std::move(copy);
}

void ScoreLane::finish(bool at_once) {
  set(finishing_);
  hurries_ = at_once;
}

void ScoreLane::scores_with(std::unique_ptr<Examiner> examiner) {
  const std::lock_guard hold(lock_);
  examiner_ = std::move(examiner);
  scorer_ = self_;
  evaluating_ = false;
  scores_ = true;
}

bool ScoreLane::knows(std::uint64_t steps) {
  const std::lock_guard hold(lock_);
  return steps <= done_ || shelf_.contains(steps);
}

bool ScoreLane::has_scored(std::uint64_t steps) {
  const std::lock_guard hold(lock_);
  return steps <= done_;
}

bool ScoreLane::is_set(const bool& flag) {
  const std::lock_guard hold(lock_);
  return flag;
}

std::size_t ScoreLane::waiting() const {
  return std::ranges::count_if(shelf_, [](const auto& on_it) { return on_it.second->paces; });
}

int ScoreLane::held_up_by() {
  const std::lock_guard hold(lock_);
  return evaluating_ && waiting() >= kMostBehindEvaluation ? scorer_ : -1;
}

bool ScoreLane::has_room() {
  const std::lock_guard hold(lock_);
  return waiting() < std::max(kMostInAll, kMostBytes / (count_ * size_of(Type::fp32)));
}

ScoreLane::Losses ScoreLane::take_scored_losses() {
  const std::lock_guard hold(lock_);
  given_ = {};
  return std::exchange(scored_, {});
}

std::optional<ScoreLane::Answer> ScoreLane::answer_to(const Word& word) {
  const std::lock_guard hold(lock_);
  if (word.kind == Word::met) {
    if (!met_) return {};
    return given(met_, met_->about.steps);
  }
  const auto is_next = [&](const auto& on_it) {
    return on_it.first > word.steps && on_it.second->paces;
  };
  const auto found =
      word.kind == Word::exact ? shelf_.find(word.steps) : std::ranges::find_if(shelf_, is_next);
  if (found != shelf_.end()) return given(found->second, found->first);
  if (resting_) return word.kind == Word::exact ? given(resting_, word.steps) : Answer{};
  if (word.kind == Word::exact) wanted_ = word.steps;
  return {};
}

// Under the lock.
ScoreLane::Answer ScoreLane::given(const std::shared_ptr<const ScoreCopy>& copy,
                                   std::uint64_t steps) {
  Answer answer{copy->about, copy};
  answer.about.steps = steps;
  answer.about.is_there = 1;
  given_ = {steps, answer.about.loss_sum, answer.about.loss_samples};
  answer.about.loss_sum -= scored_.sum;
  answer.about.loss_samples -= scored_.samples;
  return answer;
}

void ScoreLane::add_finished(const Finished& finished) {
  const std::lock_guard hold(lock_);
  done_ = finished.score.steps;
  shelf_.erase(shelf_.begin(), shelf_.upper_bound(done_));
  if (given_.steps == done_) scored_ = given_;
  evaluating_ = false;
  met_is_scored_ = met_is_scored_ || finished.of_all_that_met;
  finished_.push_back(finished);
  has_finished_ = true;
  // While it rests the rank's thread uses nothing that this does.
  if (finished.here && resting_ && !abandoned_) make_known();
}

void ScoreLane::make_known() {
  for (Finished& finished : std::exchange(finished_, {}))
    keep_(finished.score, finished.run_samples, finished.here);
  has_finished_ = false;
}

void ScoreLane::take_finished() {
  if (!has_finished_) return;
  const std::lock_guard hold(lock_);
  make_known();
}

}  // namespace lockstep
