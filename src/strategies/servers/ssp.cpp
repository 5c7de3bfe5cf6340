// Stale synchronous parallel (Ho et al.: More effective distributed ML via a stale synchronous
// parallel parameter server, 2013). A worker's clock c counts the steps it has completed. It may
// start step c if no worker's clock is below c - s: what it then reads holds all updates of steps
// up to c - s - 1 from everybody, all of its own, and perhaps newer ones of others.
//
// A worker steps its own replica with its own optimiser and pushes what that changed; servers add
// it up. Its replica is its cache, which its own updates are in (read-my-writes). With every push
// goes a question for newer weights, ahead of need: the one of clock c is answered when the lowest
// clock is what step c + l needs, c + l - s at least, and waited for before that step, where l is
// the lead. So neither stops a worker unless somebody is too slow, or the way to the servers and
// back takes more than l steps. Whatever has come by then is used. A worker that rests or is gone
// bounds nobody.
//
// One question a step, whatever the others do: a worker that is s ahead has to read in every step
// anyway, and asking seldom would save bytes at the slowest alone, and make their number a matter
// of chance. Copies are fresher, too (Dai et al.: High-performance distributed ML at scale through
// parameter server consistency models, 2015).
//
// A worker sends 4N bytes a step and is sent 4N.
#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <utility>

#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/servers/central.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

using Wants = CentralRequest::Wants;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// Each further step of it costs a worker memory for N numbers.
constexpr std::uint64_t kMostLead = 3;

// A worker's steps to the servers of a central model, one after the other: each pushes what it
// changed and asks for weights, and the worker goes on meanwhile. One job on the background's lane
// carries all that is under way, as long as anything is; it is always inside a call, and the rank's
// thread rings when there is more. Every question is answered, in order, when the server's rule
// allows it.
//
// Weights that come hold those of this worker's changes that the server had by then. The others are
// added when they are taken, so that none of its own changes is ever missing or counted twice.
//
// Used by a rank and its own background at once, and owned by both: the job may outlive the
// strategy that posted it by a moment.
class CentralStream : public std::enable_shared_from_this<CentralStream> {
 public:
  // For weights like these.
  CentralStream(const Crew& crew, Values weights, const MixAudit& proof)
      : crew_(crew),
        proof_(proof),
        pattern_(weights),
        peers_(crew.rank.peers),
        background_(crew.rank.background),
        clock_(crew.rank.clock),
        lock_(crew.rank.lock),
        copies_(crew.servers) {
    for (int k = 0; k < crew.servers; ++k) news_.emplace_back(weights.part(shard(k)));
  }
  CentralStream(const CentralStream&) = delete;

  // All below is for the rank's thread. Throws what the job threw.

  // All have met: the weights of all servers have this clock.
  void meet(std::uint64_t clock) {
    for (Copy& copy : copies_) copy.clock = clock;
    spare_.insert(spare_.end(), changes_.begin(), changes_.end());
    changes_.clear();
    const std::lock_guard hold(lock_);
    for (News& news : news_) news.is_new = false;
  }

  // Where the next change is to be written.
  Values change() {
    const auto idle = std::ranges::find_if(spare_, [](const auto& c) { return c->unsent == 0; });
    if (idle == spare_.end()) {
      next_ = std::make_shared<Change>(pattern_);
    } else {
      next_ = std::move(*idle);
      spare_.erase(idle);
    }
    return next_->values.values();
  }

  // Pushes it, this worker's `number`th, by these messages, and asks for weights with at least the
  // clock `oldest`.
  void send(std::shared_ptr<const Pushed> messages, std::uint32_t number, std::uint64_t step,
            std::uint64_t oldest) {
    next_->messages = std::move(messages);
    next_->number = number;
    next_->words.clear();
    for (int k = 0; k < crew_.servers; ++k) {
      const Projection proof = proof_.of(next_->values.values(shard(k)), shard(k).begin);
      next_->words.push_back({Wants::weights, number, step, oldest, copies_[k].clock, proof});
      copies_[k].pushed += proof;
    }
    next_->unsent = 2 * crew_.servers;
    changes_.push_back(next_);
    ++asked_;
    {
      const std::lock_guard hold(lock_);
      outbox_.push_back(std::move(next_));
    }
    wake();
  }

  // Until no more than so many questions are without an answer. Returns for how many seconds of
  // that the servers' rule held this worker back.
  double await(std::uint64_t unanswered) {
    if (asked_ <= unanswered) return 0;
    const double blocked_s = blocked_s_;
    double held_s = 0;
    wait_until([&] {
      const auto answered = std::ranges::min_element(news_, {}, &News::answers)->answers;
      if (asked_ - answered > unanswered) return false;
      for (const News& news : news_) held_s = std::max(held_s, news.answer.held_s);
      return true;
    });
    return std::min(held_s, blocked_s_ - blocked_s);
  }

  // Has anything come since the last call? Then the weights become that, with the changes that are
  // not in it yet; `mix` says so for the audit.
  bool take(Values weights, std::vector<Term>& mix) {
    bool any = false;
    std::vector<std::optional<CentralAnswer>> came(crew_.servers);
    {
      const std::lock_guard hold(lock_);
      for (int k = 0; k < crew_.servers; ++k) {
        if (!std::exchange(news_[k].is_new, false)) continue;
        copy(weights.part(shard(k)).bytes(), news_[k].weights.values().bytes());
        came[k] = news_[k].answer;
        any = true;
      }
    }
    if (!any) return false;
    for (int k = 0; k < crew_.servers; ++k) {
      const Values part = weights.part(shard(k));
      if (!came[k]) {
        mix.push_back({1, proof_.of(part, shard(k).begin)});
        continue;
      }
      copies_[k].clock = came[k]->clock;
      copies_[k].pushes = came[k]->pushes;
      for (const auto& change : changes_)
        if (change->number > came[k]->pushes)
          combine(part, change->values.values(shard(k)).bytes());
      mix.insert(mix.end(), {{1, came[k]->proof}, {1, copies_[k].pushed}, {-1, came[k]->own}});
    }
    const std::uint64_t in_all = std::ranges::min_element(copies_, {}, &Copy::pushes)->pushes;
    while (!changes_.empty() && changes_.front()->number <= in_all) {
      spare_.push_back(std::move(changes_.front()));
      changes_.pop_front();
    }
    return true;
  }

  // The model as it is now, without the changes that are under way.
  void fetch(Values model) {
    {
      const std::lock_guard hold(lock_);
      model_ = model;
      missing_ = crew_.servers;
    }
    wake();
    wait_until([&] { return missing_ == 0; });
  }

  // Until nothing is under way.
  void settle() {
    if (job_ == 0) return;
    const double since = clock_.now();
    background_.wait(job_);
    blocked_s_ += clock_.now() - since;
  }

  // Seconds in which something was under way while this rank went on.
  double hidden_s() {
    const std::lock_guard hold(lock_);
    return talked_s_ - blocked_s_;
  }

  // The strategy goes away, and the job when it is rung.
  void abandon() {
    abandoned_ = true;
    background_.ring();
  }

 private:
  class Job;
  // What a step changed, and the question that goes with it.
  struct Change {
    explicit Change(Values like) : values(like, like.count()) {}
    Scratch values;
    std::shared_ptr<const Pushed> messages;
    std::uint64_t number = 0;
    std::vector<CentralRequest> words;  // by server
    std::atomic<int> unsent = 0;        // messages that the transport still needs
  };
  // What a server has answered.
  struct News {
    explicit News(Values shard) : weights(shard, shard.count()), landing(shard, shard.count()) {}
    // Under the lock:
    Scratch weights;
    CentralAnswer answer;
    std::uint64_t answers = 0;  // so far
    bool is_new = false;        // not taken yet
    // The job's:
    Scratch landing;
    CentralAnswer next;
  };
  // What the rank's thread has of one server's shard.
  struct Copy {
    std::uint64_t clock = 0;   // see CentralAnswer
    std::uint64_t pushes = 0;  // own changes that were in when it came
    Projection pushed;         // all own changes so far, for the audit
  };

  Slice shard(int k) const { return crew_.shard(k, pattern_.count()); }

  // There is something to do for the job.
  void wake();

  // Until `ready`, which is asked under the lock, or the job has failed.
  template <class F>
  void wait_until(F&& ready) {
    const double since = clock_.now();
    for (;;) {
      {
        const std::lock_guard hold(lock_);
        if (ready()) break;
        awaited_ = !failed_;
      }
      if (failed_) background_.wait(job_);  // throws
      wait_while_it_lives(peers_, peers_.bell());
    }
    blocked_s_ += clock_.now() - since;
  }

  const Crew crew_;  // without its rank, which a job may outlive
  const MixAudit proof_;
  const Values pattern_;  // what buffers are like; its memory is not touched
  Transport& peers_;
  Background& background_;
  Clock& clock_;
  Lock& lock_;

  // The rank's own.
  std::list<std::shared_ptr<Change>> changes_;  // not in all that was taken, by number
  std::vector<std::shared_ptr<Change>> spare_;
  std::shared_ptr<Change> next_;
  std::vector<Copy> copies_;  // by server
  std::uint64_t asked_ = 0, job_ = 0;
  double blocked_s_ = 0;

  // Under the lock:
  std::vector<std::shared_ptr<Change>> outbox_;
  std::vector<News> news_;       // by server
  std::optional<Values> model_;  // wanted, and not asked for yet
  int missing_ = 0;              // shards of it that have not come
  bool running_ = false;         // a job, or one is posted
  bool awaited_ = false;         // the rank's thread waits to be rung
  double talked_s_ = 0;

  std::atomic<bool> failed_ = false, abandoned_ = false;
};

// What is under way on the lane. No call on the lane is made under the lock.
class CentralStream::Job {
 public:
  Job(CentralStream& stream, Transport& lane)
      : s_(stream), lane_(lane), asked_(s_.crew_.servers), listening_(s_.crew_.servers) {}
  Job(const Job&) = delete;

  void run() {
    while (take_orders() && !s_.abandoned_) step();
  }

 private:
  struct Open {
    std::function<void()> then;  // when it has arrived; may own the message's memory
    Pending pending;
  };

  void open(Pending pending, std::function<void()> then) {
    open_.push_back({std::move(then), std::move(pending)});
  }
  int rank_of(int k) const { return s_.crew_.rank_of_server(k); }
  // Each worker begins with another server, so that not all push to the same one first.
  template <class F>
  void for_each_server(F&& f) {
    for (int i = 1; i <= s_.crew_.servers; ++i) f((lane_.rank() + i) % s_.crew_.servers);
  }

  // False: there are none, and nothing is under way.
  bool take_orders() {
    std::vector<std::shared_ptr<Change>> changes;
    std::optional<Values> model;
    {
      const std::lock_guard hold(s_.lock_);
      changes.swap(s_.outbox_);
      model.swap(s_.model_);
      if (changes.empty() && !model && open_.empty()) s_.running_ = false;
      if (!s_.running_) return false;
    }
    for (const auto& change : changes) for_each_server([&](int k) { push(change, k); });
    if (model) for_each_server([&](int k) { ask_model(k, model->part(s_.shard(k))); });
    return true;
  }

  void push(const std::shared_ptr<Change>& change, int k) {
    open(lane_.send(rank_of(k), kCentralRequest, bytes_of(change->words[k])),
         [change] { --change->unsent; });
    send_numbers(change, k);
    ++asked_[k];
    listen(k);
  }
  // Without waiting for a turn: the word that it is this worker's turn would come behind the answer
  // that the server is sending it, and the line into the server would stand still for as long.
  void send_numbers(const std::shared_ptr<Change>& change, int k) {
    const PushMessage& numbers = (*change->messages)[k].at(0);
    open(lane_.send(rank_of(k), numbers.tag, numbers.bytes), [change] { --change->unsent; });
  }

  // One answer of a server at a time, so memory for one.
  void listen(int k) {
    if (listening_[k] || asked_[k] == 0) return;
    listening_[k] = 2;
    News& news = s_.news_[k];
    const Values part = news.landing.values();
    const auto came = [=, this] {
      if (--listening_[k] == 0) answered(k);
    };
    open(lane_.recv(rank_of(k), kCentralAnswer, bytes_of(news.next)), came);
    open(lane_.recv(rank_of(k), central_numbers(Purpose::weights, part), part.bytes()), came);
  }
  void answered(int k) {
    News& news = s_.news_[k];
    expect_held(news.landing.values(), news.next, k);
    {
      const std::lock_guard hold(s_.lock_);
      std::swap(news.landing, news.weights);
      news.answer = news.next;
      news.is_new = true;
      ++news.answers;
      tell();
    }
    --asked_[k];
    listen(k);
  }

  void ask_model(int k, Values part) {
    struct Talk {
      CentralRequest request{Wants::model};
      CentralAnswer answer;
      int open = 2;
    };
    const auto talk = std::make_shared<Talk>();
    const auto came = [=, this] {
      if (--talk->open > 0) return;
      expect_held(part, talk->answer, k);
      const std::lock_guard hold(s_.lock_);
      --s_.missing_;
      tell();
    };
    open(lane_.send(rank_of(k), kCentralRequest, bytes_of(talk->request)), [talk] {});
    open(lane_.recv(rank_of(k), kCentralModel, bytes_of(talk->answer)), came);
    open(lane_.recv(rank_of(k), central_numbers(Purpose::evaluation, part), part.bytes()), came);
  }

  void expect_held(Values part, const CentralAnswer& answer, int k) const {
    const Term held[] = {{1, answer.proof}};
    s_.proof_.expect("weights that a server held", part, held, s_.shard(k).begin);
  }

  // Under the lock: to the rank's thread, which may wait for this.
  void tell() {
    if (std::exchange(s_.awaited_, false)) s_.peers_.ring();
  }

  // Waits for the next thing that happens, and deals with it.
  void step() {
    if (!bell_) bell_ = lane_.bell();
    std::vector<Request> requests{bell_.request()};
    for (const Open& one : open_) requests.push_back(one.pending.request());
    const double since = s_.clock_.now();
    const Ending ending = wait_any_while_they_live(lane_, requests);
    ending.or_throw();
    {
      const std::lock_guard hold(s_.lock_);
      s_.talked_s_ += s_.clock_.now() - since;
    }
    if (ending.index == 0) return bell_.ended();
    const auto one = std::next(open_.begin(), static_cast<std::ptrdiff_t>(ending.index) - 1);
    const std::function<void()> then = std::move(one->then);
    open_.erase(one);
    then();
  }

  CentralStream& s_;
  Transport& lane_;
  std::list<Open> open_;
  Pending bell_;
  // By server: questions without an answer, and messages that the next one still lacks.
  std::vector<int> asked_, listening_;
};

void CentralStream::wake() {
  if (failed_) background_.wait(job_);  // throws
  bool runs = false;
  {
    const std::lock_guard hold(lock_);
    runs = std::exchange(running_, true);
  }
  if (runs) return background_.ring();
  job_ = background_.post([self = shared_from_this()](Transport& lane) {
    std::exception_ptr failure;
    try {
      Job(*self, lane).run();
    } catch (const std::exception&) {
      failure = std::current_exception();  // what follows may pass time, which no handler must
    }
    if (!failure) return;
    self->failed_ = true;
    {
      const std::lock_guard hold(self->lock_);
      if (std::exchange(self->awaited_, false)) self->peers_.ring();
    }
    std::rethrow_exception(failure);
  });
}

class Ssp final : public Central {
 public:
  Ssp(const Crew& crew, std::uint64_t s)
      : Central(crew, Talks::beside), s_(s), lead_(std::min(s, kMostLead)), clocks_(crew.workers) {}
  ~Ssp() override {
    if (stream_) stream_->abandon();
  }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    const Values weights = replica.weights();
    if (!stream_) stream_ = std::make_shared<CentralStream>(crew_, weights, proof_);
    // Where all have met, caches are up to date.
    if (std::exchange(met_, false)) stream_->meet(step.number);
    const Values change = stream_->change();
    copy(change.bytes(), weights.bytes());
    // Without samples the change is none, and only tells that this worker is there.
    if (has_samples(step)) replica.apply_gradients(step.number, own_share(step));
    subtract_from(weights, change);
    book_.owes_change();
    auto pushed = encode(change, false);
    book_.pushed(proof_.of(change));

    const std::uint64_t needed = step.number + 1 + lead_;
    stream_->send(std::move(pushed), count_push(), step.number, needed - std::min(needed, s_));
    was_held_back(stream_->await(lead_));
    take_news(weights);
  }

  void rest(Replica& replica) override {
    if (stream_) stream_->settle();
    Central::rest(replica);
    copy(replica.weights().bytes(), at_rest().bytes());
    book_.becomes({{1, pulled()}});
    met_ = true;
  }

  bool fetch_model(Values model) override {
    if (met_ || !stream_) return Central::fetch_model(model);
    stream_->fetch(model);
    return true;
  }

  const Figures& figures() override {
    Central::figures();
    if (stream_) figures_.hidden_s += stream_->hidden_s();
    return figures_;
  }

 private:
  void take_news(Values weights) {
    std::vector<Term> mix;
    if (!stream_->take(weights, mix)) return;
    book_.arrived();
    book_.takes(std::move(mix));
  }

  // On servers.
  void start(std::uint64_t first) override {
    for (std::uint64_t& clock : clocks_)
      if (clock != kGone) clock = first;
  }

  bool apply(Replica& replica, const Push& push) override {
    const std::uint64_t age = push.step - push.stamp;
    if (proof_.on() && age > s_)
      proof_.fail(
          "worker {} took step {} from weights that were {} steps old, where "
          "the staleness is {}",
          push.worker, push.step, age, s_);
    add(replica, push);
    figures_.contributions.add(push.worker, 1, age);
    clocks_[push.worker] = push.step + 1;
    return true;
  }

  bool may_read(int, std::uint64_t oldest) const override { return clock() >= oldest; }
  bool gives_turns() const override { return false; }
  std::uint64_t clock() const override { return std::ranges::min(clocks_); }

  bool rests(Replica&, int worker) override {
    clocks_[worker] = kNever;
    return false;
  }
  void gone(Replica&, int worker, const TransportError&) override { clocks_[worker] = kGone; }

  static constexpr std::uint64_t kGone = kNever - 1;  // bounds nobody either, and stays

  const std::uint64_t s_, lead_;
  // On workers.
  std::shared_ptr<CentralStream> stream_;
  bool met_ = true;  // since the last step
  // On servers, by worker: steps completed.
  std::vector<std::uint64_t> clocks_;
};

}  // namespace

StrategyMaker ssp(const Options& options) {
  const std::int64_t s = at_least(0, options, "staleness");
  return {.make = [=](const Crew& crew) { return std::make_unique<Ssp>(crew, s); },
          .travels = Travels::pushed_changes};
}

}  // namespace lockstep
