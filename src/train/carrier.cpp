#include "train/carrier.h"

#include <algorithm>
#include <utility>

#include "transport/channels.h"

namespace lockstep {

Carrier::~Carrier() {
  if (!is_open_) return;
  try {
    {
      const std::lock_guard hold(worker_.lock);
      gives_up_ = true;
    }
    worker_.background.ring();
    worker_.background.wait(job_);
  } catch (...) {  // an error of its own ends this rank; a kill comes again
  }
}

void Carrier::open(bool test) {
  test_ = test;
  orders_.clear();
  missing_.clear();
  last_ = failed_ = false;
  waits_since_.reset();
  is_open_ = true;
  job_ = worker_.background.post([this](Transport& lane) { carry(lane); });
}

std::size_t Carrier::expect(std::vector<Passage> passages) {
  std::vector<Parcel> parcels;
  const std::size_t call = missing_.size();  // which nobody else makes longer
  for (Passage& one : passages) parcels.push_back({std::move(one), call});
  {
    const std::lock_guard hold(worker_.lock);
    missing_.push_back(parcels.size());
  }
  if (!parcels.empty()) tell(std::move(parcels));
  return call;
}

void Carrier::send(std::vector<Passage> passages) {
  std::vector<Parcel> parcels;
  for (Passage& one : passages) parcels.push_back({std::move(one)});
  if (!parcels.empty()) tell(std::move(parcels));
}

void Carrier::tell(std::vector<Parcel> parcels, bool last) {
  {
    const std::lock_guard hold(worker_.lock);
    std::ranges::move(parcels, std::back_inserter(orders_));
    last_ = last;
  }
  worker_.background.ring();
}

void Carrier::await(std::size_t call) {
  const double start_s = worker_.clock.now();
  for (;;) {
    bool failed = false;
    {
      const std::lock_guard hold(worker_.lock);
      failed = failed_;
      if (!failed && missing_[call] == 0) break;
      if (!failed) waits_since_ = worker_.clock.now();
    }
    if (failed) close();  // throws what the job threw
    // The job has the deadline, and wakes this rank when it has failed.
    Pending woken = worker_.peers.bell();
    worker_.peers.wait(woken, {worker_.clock.now() + 2 * worker_.peers.patience_seconds()});
  }
  waited_s_ += worker_.clock.now() - start_s;
}

void Carrier::close() {
  const double start_s = worker_.clock.now();
  tell({}, true);
  is_open_ = false;
  worker_.background.wait(job_);
  waited_s_ += worker_.clock.now() - start_s;
}

Tag Carrier::tag_of(const Passage& passage) const {
  const Action& action = passage.action;
  if (test_) return test_passage_channel(passage.link, action.micro);
  return passage_channel(passage.link, action.replica, action.pass != StagePass::forward,
                         action.micro);
}

void Carrier::carry(Transport& lane) try {
  std::vector<Parcel> open;
  Pending bell = lane.bell();
  while (take_orders(lane, open)) {
    // Receives come first: the first of them is what the rank needs next.
    std::vector<Request> requests;
    for (const Parcel& parcel : open) requests.push_back(parcel.under_way.request());
    requests.push_back(bell.request());
    double since_s = lane.now();
    {
      const std::lock_guard hold(worker_.lock);
      since_s = waits_since_.value_or(since_s);
    }
    const Ending ending = lane.wait_any(requests, {since_s + lane.patience_seconds()});
    if (ending.late()) {
      const std::lock_guard hold(worker_.lock);
      // A rank that computes for long waits for nobody.
      if (waits_since_ && *waits_since_ + lane.patience_seconds() <= lane.now()) ending.or_throw();
      continue;
    }
    if (ending.index == open.size()) {
      bell.ended();
      ending.or_throw();
      bell = lane.bell();
      continue;
    }
    open[ending.index].under_way.ended();
    ending.or_throw();
    note(open[ending.index]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(ending.index));
  }
} catch (const std::exception&) {
  {
    const std::lock_guard hold(worker_.lock);
    failed_ = true;
  }
  wake_rank();
  throw;
}

bool Carrier::take_orders(Transport& lane, std::vector<Parcel>& open) {
  std::vector<Parcel> orders;
  bool last = false;
  {
    const std::lock_guard hold(worker_.lock);
    if (gives_up_) return false;
    orders.swap(orders_);
    last = last_;
  }
  const auto receives = [](const Parcel& parcel) { return parcel.call != kNoCall; };
  for (Parcel& order : orders) {
    const Passage& passage = order.passage;
    const Tag tag = tag_of(passage).with_format(passage.numbers.format());
    order.under_way = receives(order) ? lane.recv(passage.worker, tag, passage.numbers.bytes())
                                      : lane.send(passage.worker, tag, passage.numbers.bytes());
    const auto place = receives(order) ? std::ranges::find_if_not(open, receives) : open.end();
    open.insert(place, std::move(order));
  }
  return !last || !open.empty();
}

void Carrier::note(const Parcel& arrived) {
  if (arrived.call == kNoCall) return;
  {
    const std::lock_guard hold(worker_.lock);
    if (--missing_[arrived.call] > 0) return;
  }
  wake_rank();
}

void Carrier::wake_rank() {
  bool waits = false;
  {
    const std::lock_guard hold(worker_.lock);
    waits = std::exchange(waits_since_, std::nullopt).has_value();
  }
  if (waits) worker_.peers.ring();
}

}  // namespace lockstep
