#include "train/score_lane.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kWord{Purpose::evaluation, 0x110}, kText{Purpose::evaluation, 0x111},
    kAbout{Purpose::evaluation, 0x112}, kWeights{Purpose::evaluation, 0x113},
    kStatistics{Purpose::evaluation, 0x114}, kModel{Purpose::evaluation, 0x115};

// Copies of a pacemaker that are not scored yet: one that is being evaluated and one that waits for
// it; and where the scorer waits for copies of workers that are slower, whom nobody is to wait for.
constexpr int kMostBehindEvaluation = 2, kMostInAll = 8;

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

// The mean of copies that come one after the other, by what each counts for, and how far they are
// from it. All is computed from the first: x_0 + sum f_i (x_i - x_0), so that copies that are equal
// have their own mean to the bit, and no distance.
class ScoreLane::Mean {
 public:
  Mean(const Part& first, bool audit)
      : audit_(audit),
        first_(first.copy->weights),
        by_mass_(first_.size()),
        evenly_(first_.size()),
        model_(first.copy->model),
        own_statistics_(first.copy->statistics),
        statistics_(own_statistics_.size()) {
    add(first);
    if (!model_.empty()) terms_ = {{1, first.about.model}};
  }

  void add(const Part& part) {
    const ScoreCopy& copy = *part.copy;
    const double mass = part.about.mass, weight = mass * part.about.samples;
    if (mass > 0 && mass_ == 0) {  // the first that takes part: those before it do not count
      std::ranges::fill(evenly_, 0.0f);
      square_ = 0;
      count_ = 0;
    }
    const bool counts = mass > 0 || mass_ == 0;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const double apart = double(copy.weights[i]) - double(first_[i]);
      by_mass_[i] += static_cast<float>(mass * apart);
      if (!counts) continue;
      evenly_[i] += static_cast<float>(apart);
      square_ += apart * apart;
    }
    for (std::size_t i = 0; i < statistics_.size(); ++i)
      statistics_[i] += weight * copy.statistics[i];
    if (model_.empty()) terms_.push_back({mass, part.about.weights});
    statistics_terms_.push_back({weight, part.about.statistics});
    mass_ += mass;
    weight_ += weight;
    if (counts) ++count_;
  }

  // Once. AuditError.
  Model model() {
    Model model{std::move(model_), own_statistics_};
    if (model.weights.empty()) {
      const bool all_are_nothing = mass_ == 0;  // those that had taken part are gone
      const std::vector<float>& sum = all_are_nothing ? evenly_ : by_mass_;
      const double whole = all_are_nothing ? count_ : mass_;
      model.weights.resize(first_.size());
      for (std::size_t i = 0; i < first_.size(); ++i)
        model.weights[i] = static_cast<float>(first_[i] + sum[i] / whole);
      for (Term& term : terms_) term.factor = all_are_nothing ? 1 / whole : term.factor / whole;
    }
    for (std::size_t i = 0; i < statistics_.size() && weight_ > 0; ++i)
      model.statistics[i] = static_cast<float>(statistics_[i] / weight_);
    for (Term& term : statistics_terms_) term.factor /= weight_;
    if (!audit_) return model;
    prove("weights", model.weights, terms_);
    if (weight_ > 0) prove("statistics", model.statistics, statistics_terms_);
    return model;
  }

  // The mean over the copies that take part (see Strategy::mass) of their squared distance from it.
  double distance(const std::vector<float>& model) const {
    double along = 0, square = 0;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const double apart = double(model[i]) - double(first_[i]);
      along += apart * evenly_[i];
      square += apart * apart;
    }
    return std::max(0.0, (square_ - 2 * along) / count_ + square);
  }

 private:
  static void prove(const char* what, const std::vector<float>& mean,
                    const std::vector<Term>& terms) {
    if (mean.empty()) return;
    if (const auto wrong = mismatch(projected(mean), terms, mean.size()))
      throw AuditError(fmt::format("audit: the {} of the model {}", what, *wrong));
  }

  const bool audit_;
  const std::vector<float> first_;
  std::vector<float> by_mass_, evenly_;  // sums of differences; of those that take part
  std::vector<float> model_;             // if it is not their mean
  const std::vector<float> own_statistics_;
  std::vector<double> statistics_;
  std::vector<Term> terms_, statistics_terms_;
  double mass_ = 0, weight_ = 0;
  double square_ = 0;  // of the distances from the first, of those that take part,
  int count_ = 0;      // and how many these are
};

// The lane's side. No call on the lane is made under the lock.
class ScoreLane::Job {
 public:
  Job(ScoreLane& desk, Transport& lane) : desk_(desk), lane_(lane), is_alone_(lane.size() == 1) {}
  Job(const Job&) = delete;
  ~Job() {
    if (heard_) give_up(*heard_);
    if (bell_) give_up(*bell_);
  }

  void run() {
    for (;;) {
      answer();
      Word next;
      bool all_have_met = false;  // asked for first: then a pacemaker that has no more has no more
      {
        const std::lock_guard hold(desk_.lock_);
        if (desk_.closing_) return;
        all_have_met = desk_.finishing_;
        next.steps = desk_.done_;
      }
      if (!desk_.scores_) {
        step();
        continue;
      }
      const int pacemaker = desk_.pacemaker_(living());
      const std::optional<Part> first = fetch(pacemaker, next);
      if (!first) continue;  // another sets the pace
      if (first->copy) {
        Gathered gathered = gather(pacemaker, *first, false);
        if (!all_have_met) {
          score(gathered, pacemaker);
          continue;
        }
        desk_.gathered_ = std::move(gathered);
      }
      if (all_have_met) return;
      step();
    }
  }

  Gathered gather_last(std::uint64_t steps) {
    return gather(desk_.self_, *fetch(desk_.self_, {Word::exact, 0, steps, 0}), true);
  }

  void tell_all(const Finished& finished) {
    const std::string text = to_json(finished.score).dump();
    const Word word{Word::done, static_cast<std::uint32_t>(text.size()), finished.score.steps,
                    finished.run_samples};
    for (const int worker : living())
      if (worker != desk_.self_) tell(worker, word, text);
  }

 private:
  void score(const Gathered& gathered, int pacemaker) {
    {
      const std::lock_guard hold(desk_.lock_);
      desk_.evaluating_ = true;
    }
    if (pacemaker != desk_.self_) tell(pacemaker, {Word::evaluates, 0, gathered.score.steps, 0});
    const std::optional<Finished> finished = desk_.score(gathered);
    if (!finished) throw Abandoned{};
    tell_all(*finished);
  }

  struct Asked {
    int by;
    Word word;
  };

  void give_up(Request request) const {
    try {
      lane_.cancel(request);
    } catch (const std::exception&) {  // it has ended
    }
  }

  std::vector<int> living() {
    const std::vector<int> dead = lane_.dead_peers();
    std::vector<int> living;
    for (int w = 0; w < desk_.workers_; ++w)
      if (!desk_.gone_.contains(w) && !std::ranges::binary_search(dead, w)) living.push_back(w);
    return living;
  }

  // Requests that end, in one way or another, before what they refer to goes: made after it.
  class Exchange {
   public:
    explicit Exchange(Job& job) : job_(job) {}
    Exchange(const Exchange&) = delete;
    ~Exchange() {
      for (const Request request : open_) job_.give_up(request);
    }
    void send(int to, Tag tag, ConstBytes bytes) {
      open([&](Transport& lane) { return lane.send(to, tag, bytes); });
    }
    void recv(int from, Tag tag, Bytes into) {
      open([&](Transport& lane) { return lane.recv(from, tag, into); });
    }
    // Until all have ended. False: the peer is gone.
    bool end() {
      for (; !open_.empty(); open_.pop_front())
        if (!job_.ends(open_.front())) is_gone_ = true;
      return !is_gone_;
    }

   private:
    template <class F>
    void open(F&& request) {
      try {
        open_.push_back(request(job_.lane_));
      } catch (const TransportError& e) {
        if (!e.is_gone()) throw;
        is_gone_ = true;
      }
    }

    Job& job_;
    std::deque<Request> open_;
    bool is_gone_ = false;
  };

  // Until it has ended. False: the peer is gone; or all have met, so that its lane has nothing else
  // to do, and the patience is over.
  bool ends(Request request) {
    for (;;) {
      const bool all_have_met = desk_.is_finishing();
      if (desk_.abandoned_) throw Abandoned{};
      if (!bell_) bell_ = lane_.bell();
      const Request open[] = {request, *bell_};
      bool too_late = false;
      try {
        if (lane_.wait_any(open, lane_.patience()) == 0) return true;
        bell_.reset();
        has_rung_ = true;  // step() deals with that
      } catch (const TransportError& e) {
        if (e.is_gone()) return false;
        if (e.kind() != TransportError::Kind::deadline) throw;
        too_late = all_have_met;
      }
      if (!too_late) continue;
      give_up(request);
      return false;
    }
  }

  // Waits for a word, or for the rank's thread to ring.
  void step() {
    if (desk_.abandoned_) throw Abandoned{};
    if (std::exchange(has_rung_, false)) return;
    if (!bell_) bell_ = lane_.bell();
    if (!heard_ && !is_alone_) heard_ = lane_.recv(kAnyRank, kWord, bytes_of(word_));
    std::vector<Request> open{*bell_};
    if (heard_) open.push_back(*heard_);
    Arrival arrival;
    std::size_t ended = 0;
    try {
      ended = wait_any_while_they_live(lane_, open, &arrival);
    } catch (const TransportError& e) {
      if (!e.is_gone()) throw;
      is_alone_ = true;
      heard_.reset();
      return;
    }
    if (ended == 0) {
      bell_.reset();
      return;
    }
    heard_.reset();
    hear(arrival.from, word_);
  }

  void hear(int from, const Word& word) {
    if (word.kind == Word::next || word.kind == Word::exact) {
      asked_.push_back({from, word});
      const std::lock_guard hold(desk_.lock_);
      desk_.scorer_ = from;
    } else if (word.kind == Word::evaluates) {
      const std::lock_guard hold(desk_.lock_);
      desk_.evaluating_ = true;
    } else {
      std::string text(word.bytes, ' ');
      Exchange exchange(*this);
      exchange.recv(from, kText, bytes_in(text));
      if (exchange.end())
        desk_.add_finished({score_from_json(nlohmann::json::parse(text)), word.run_samples, false});
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
      Exchange exchange(*this);
      exchange.send(asked.by, kAbout, {&answer->about, sizeof answer->about});
      if (answer->copy) {
        exchange.send(asked.by, kWeights, bytes_in(answer->copy->weights));
        if (desk_.statistics_ > 0)
          exchange.send(asked.by, kStatistics, bytes_in(answer->copy->statistics));
        if (answer->about.has_model) exchange.send(asked.by, kModel, bytes_in(answer->copy->model));
      }
      exchange.end();  // who asked and is gone needs no answer
    }
  }

  void tell(int worker, const Word& word, const std::string& text = {}) {
    Exchange exchange(*this);
    exchange.send(worker, kWord, {&word, sizeof word});
    if (!text.empty()) exchange.send(worker, kText, bytes_in(text));
    exchange.end();
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
    Exchange exchange(*this);
    exchange.send(worker, kWord, {&word, sizeof word});
    exchange.recv(worker, kAbout, bytes_of(part.about));
    if (!exchange.end()) return {};
    if (part.about.steps == 0) return part;
    landed_.weights.resize(desk_.count_);
    landed_.statistics.resize(desk_.statistics_);
    landed_.model.resize(part.about.has_model ? desk_.count_ : 0);
    exchange.recv(worker, kWeights, bytes_in(landed_.weights));
    if (desk_.statistics_ > 0) exchange.recv(worker, kStatistics, bytes_in(landed_.statistics));
    if (part.about.has_model) exchange.recv(worker, kModel, bytes_in(landed_.model));
    if (!exchange.end()) return {};
    part.copy = &landed_;
    return part;
  }

  // `last`: it is over when all are; until then who sets the pace has the time.
  Gathered gather(int pacemaker, const Part& first, bool last) {
    const ScoreCopy::About lead = first.about;
    Mean mean(first, desk_.experiment_.config.audit);
    std::vector<double> totals(3);
    double training_s = 0;
    const auto count = [&](const ScoreCopy::About& about) {
      totals[0] += about.loss_sum;
      totals[1] += about.loss_samples;
      totals[2] += about.bytes;
      training_s = std::max(training_s, about.training_s);
    };
    count(lead);
    for (const int worker : living()) {
      if (worker == pacemaker) continue;
      const std::optional<Part> part = fetch(worker, {Word::exact, 0, lead.steps, 0});
      if (!part) continue;
      mean.add(*part);
      count(part->about);
    }
    Gathered all{mean.model(),
                 ProgressLog::score_from(totals, lead.steps, lead.ends_epoch != 0,
                                         last ? training_s : lead.training_s),
                 lead.run_samples};
    all.score.consensus_distance = mean.distance(all.model.weights);
    return all;
  }

  ScoreLane& desk_;
  Transport& lane_;
  bool is_alone_, has_rung_ = false;
  std::optional<Request> bell_, heard_;
  Word word_;  // what is said next lands here
  std::vector<Asked> asked_;
  ScoreCopy landed_;
  std::shared_ptr<const ScoreCopy> own_;
};

ScoreLane::ScoreLane(const Rank& rank, const Experiment& experiment, Session::Pacemaker pacemaker,
                     std::size_t weights, std::size_t statistics, Keep keep)
    : lock_(rank.lock),
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

void ScoreLane::gather(Transport& lane, std::uint64_t steps) {
  as_job(lane, [&](Job& job) { gathered_ = job.gather_last(steps); });
}

void ScoreLane::tell(Transport& lane, const Finished& finished) {
  as_job(lane, [&](Job& job) { job.tell_all(finished); });
}

// Nothing: this was abandoned.
std::optional<ScoreLane::Finished> ScoreLane::score(const Gathered& gathered) {
  Finished finished{gathered.score, gathered.run_samples};
  if (!evaluate(*examiner_, experiment_, gathered.model, finished.score,
                [&] { return !abandoned_; }))
    return {};
  add_finished(finished);
  return finished;
}

ScoreLane::Finished ScoreLane::score_gathered() {
  const Gathered gathered = std::move(*gathered_);
  gathered_.reset();
  return *score(gathered);
}

void ScoreLane::go() {
  const std::lock_guard hold(lock_);
  resting_.reset();
  finishing_ = closing_ = false;
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

void ScoreLane::scores_with(std::unique_ptr<Examiner> examiner) {
  const std::lock_guard hold(lock_);
  examiner_ = std::move(examiner);
  scorer_ = self_;
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

void ScoreLane::expect(std::uint64_t steps) {
  const std::lock_guard hold(lock_);
  done_ = std::min(done_, steps - 1);
}

bool ScoreLane::is_finishing() {
  const std::lock_guard hold(lock_);
  return finishing_;
}

int ScoreLane::held_up_by() {
  const std::lock_guard hold(lock_);
  const auto waiting =
      std::ranges::count_if(shelf_, [](const auto& on_it) { return on_it.second->paces; });
  return waiting >= (evaluating_ ? kMostBehindEvaluation : kMostInAll) ? scorer_ : -1;
}

ScoreLane::Losses ScoreLane::take_scored_losses() {
  const std::lock_guard hold(lock_);
  given_ = {};
  return std::exchange(scored_, {});
}

std::optional<ScoreLane::Answer> ScoreLane::answer_to(const Word& word) {
  const std::lock_guard hold(lock_);
  const auto is_next = [&](const auto& on_it) {
    return on_it.first > word.steps && on_it.second->paces;
  };
  const auto found =
      word.kind == Word::exact ? shelf_.find(word.steps) : std::ranges::find_if(shelf_, is_next);
  Answer answer;
  if (found != shelf_.end()) {
    answer = {found->second->about, found->second};
  } else if (!resting_) {
    if (word.kind == Word::exact) wanted_ = word.steps;
    return {};
  } else if (word.kind == Word::exact) {
    answer = {resting_->about, resting_};
    answer.about.steps = word.steps;
  } else {
    return answer;
  }
  given_ = {answer.about.steps, answer.about.loss_sum, answer.about.loss_samples};
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
