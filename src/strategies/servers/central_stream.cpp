#include "strategies/servers/central_stream.h"

#include <algorithm>
#include <deque>
#include <functional>

#include "transport/patient.h"

namespace lockstep {

using Wants = CentralRequest::Wants;

CentralStream::CentralStream(const Crew& crew, Values weights, const MixAudit& proof)
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

template <class F>
void CentralStream::wait_until(F&& ready) {
  const double since = clock_.now();
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (ready()) break;
      awaited_ = !failed_;
    }
    throw_if_failed();
    wait_while_it_lives(peers_, peers_.bell());
  }
  blocked_s_ += clock_.now() - since;
}

void CentralStream::meet(std::uint64_t clock) {
  for (Copy& copy : copies_) copy.clock = clock;
  spare_.insert(spare_.end(), changes_.begin(), changes_.end());
  changes_.clear();
  const std::lock_guard hold(lock_);
  for (News& news : news_) news.is_new = false;
}

Values CentralStream::change() {
  const auto idle = std::ranges::find_if(spare_, [](const auto& c) { return c->unsent == 0; });
  if (idle == spare_.end()) {
    next_ = std::make_shared<Change>(pattern_);
  } else {
    next_ = std::move(*idle);
    spare_.erase(idle);
  }
  return next_->values.values();
}

void CentralStream::send_part(std::shared_ptr<const Pushed> messages, std::size_t count,
                              std::optional<PushOpening> opening) {
  auto order = std::make_shared<Order>();
  order->change = next_;
  order->messages = std::move(messages);
  order->count = count;
  order->opening = std::move(opening);
  put(std::move(order));
}

void CentralStream::send(std::shared_ptr<const Pushed> messages, std::uint32_t number,
                         std::uint64_t step, std::uint64_t oldest) {
  throw_if_failed();
  auto order = std::make_shared<Order>();
  order->change = next_;
  order->messages = std::move(messages);
  next_->number = number;
  for (int k = 0; k < crew_.servers; ++k) {
    const Projection proof = proof_.of(next_->values.values(shard(k)), shard(k).begin);
    order->words.push_back(
        {CentralRequest::Wants::weights, number, step, oldest, copies_[k].clock, proof});
    copies_[k].pushed += proof;
  }
  changes_.push_back(std::move(next_));
  ++asked_;
  put(std::move(order));
}

std::vector<std::pair<std::size_t, double>> CentralStream::take_times() {
  const std::lock_guard hold(lock_);
  return std::exchange(times_, {});
}

double CentralStream::await(std::uint64_t unanswered) {
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

bool CentralStream::take(Values weights, std::vector<Term>& mix) {
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
      if (change->number > came[k]->pushes) combine(part, change->values.values(shard(k)).bytes());
    mix.insert(mix.end(), {{1, came[k]->proof}, {1, copies_[k].pushed}, {-1, came[k]->own}});
  }
  const std::uint64_t in_all = std::ranges::min_element(copies_, {}, &Copy::pushes)->pushes;
  while (!changes_.empty() && changes_.front()->number <= in_all) {
    spare_.push_back(std::move(changes_.front()));
    changes_.pop_front();
  }
  return true;
}

void CentralStream::fetch(Values model) {
  throw_if_failed();
  {
    const std::lock_guard hold(lock_);
    model_ = model;
    missing_ = crew_.servers;
  }
  wake();
  wait_until([&] { return missing_ == 0; });
}

void CentralStream::settle() {
  if (job_ == 0) return;
  const double since = clock_.now();
  background_.wait(job_);
  blocked_s_ += clock_.now() - since;
}

double CentralStream::hidden_s() {
  const std::lock_guard hold(lock_);
  return talked_s_ - blocked_s_;
}

void CentralStream::abandon() {
  abandoned_ = true;
  background_.ring();
}

void CentralStream::put(std::shared_ptr<Order> order) {
  ++order->change->unsent;
  {
    const std::lock_guard hold(lock_);
    outbox_.push_back(std::move(order));
  }
  wake();
}

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
    std::optional<Values> model;
    {
      const std::lock_guard hold(s_.lock_);
      due_.insert(due_.end(), s_.outbox_.begin(), s_.outbox_.end());
      s_.outbox_.clear();
      model.swap(s_.model_);
      if (due_.empty() && !model && open_.empty()) s_.running_ = false;
      if (!s_.running_) return false;
    }
    if (model) model_ = model;
    start_orders();
    return true;
  }

  // In order; one part at a time, so that the first that are final arrive first.
  void start_orders() {
    while (!due_.empty() && !part_is_under_way_) {
      const std::shared_ptr<Order> order = std::move(due_.front());
      due_.pop_front();
      order->since_s = s_.clock_.now();
      part_is_under_way_ = order->is_part();
      for_each_server([&](int k) { push(order, k); });
      if (order->unsent == 0) sent(*order);
    }
    // Not between the parts of a push and the word that ends it.
    if (!due_.empty() || !model_) return;
    const Values model = *std::exchange(model_, std::nullopt);
    for_each_server([&](int k) { ask_model(k, model.part(s_.shard(k))); });
  }
  void push(const std::shared_ptr<Order>& order, int k) {
    if (order->opening) {
      std::vector<Pending> words;
      order->opening->send(lane_, rank_of(k), words);
      for (Pending& word : words) send(order, std::move(word));
    }
    if (!order->is_part())
      send(order, lane_.send(rank_of(k), kCentralRequest, bytes_of(order->words[k])));
    // Without waiting for a turn: the word that it is this worker's turn would come behind the
    // answer that the server is sending it, and the line into the server would stand still for as
    // long.
    if (order->messages)
      for (const PushMessage& numbers : (*order->messages)[k])
        send(order, lane_.send(rank_of(k), numbers.tag, numbers.bytes));
    if (order->is_part()) return;
    ++asked_[k];
    listen(k);
  }
  void send(const std::shared_ptr<Order>& order, Pending pending) {
    ++order->unsent;
    open(std::move(pending), [this, order] {
      if (--order->unsent == 0) sent(*order);
    });
  }
  void sent(const Order& order) {
    --order.change->unsent;
    if (!order.is_part()) return;
    part_is_under_way_ = false;
    {
      const std::lock_guard hold(s_.lock_);
      s_.times_.emplace_back(order.count, s_.clock_.now() - order.since_s);
    }
    start_orders();
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
  std::deque<std::shared_ptr<Order>> due_;  // not started
  std::optional<Values> model_;             // asked for after these
  bool part_is_under_way_ = false;
};

void CentralStream::wake() {
  if (failed_) return;
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

}  // namespace lockstep
