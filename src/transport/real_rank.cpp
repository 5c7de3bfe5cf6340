#include "transport/real_rank.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

double now_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

double wall_now() { return now_of(CLOCK_MONOTONIC); }

double calendar_now() { return now_of(CLOCK_REALTIME); }

namespace {

class WallClock final : public Clock {
 public:
  double now() const override { return wall_now(); }
  void charge(double) override {}
};

class MutexLock final : public Lock {
 public:
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ThreadBackground final : public Background {
 public:
  // `nicely`: whatever else runs comes first, as far as that starves nothing.
  explicit ThreadBackground(Transport& lane, bool nicely = false) : lane_(lane), nicely_(nicely) {}

  ~ThreadBackground() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      jobs_.clear();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::uint64_t post(Job job) override {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
    return ++posted_;
  }

  void wait(std::uint64_t number) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void ring() override { lane_.ring(); }

 private:
  void work() {
    constexpr int kNice = 10;  // a tenth of a core, where another thread wants all of it
    if (nicely_) setpriority(PRIO_PROCESS, gettid(), kNice);  // of this thread alone, on Linux
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      std::exception_ptr error;
      if (!error_) {  // after a failure the rest is dropped until wait() has told of it
        lock.unlock();
        try {
          job(lane_);
        } catch (...) {
          error = std::current_exception();
        }
        job = nullptr;
        lock.lock();
      }
      if (error) error_ = error;
      ++done_;
      changed_.notify_all();
    }
  }

  Transport& lane_;
  const bool nicely_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::uint64_t posted_ = 0, done_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

struct RealRank::Parts {
  const std::vector<std::unique_ptr<Transport>> lanes;
  WallClock clock;
  MutexLock lock;
  std::deque<ThreadBackground> backgrounds;
  ThreadBackground scoring;
  std::vector<Background*> further;
  Rank rank;

  Parts(std::vector<std::unique_ptr<Transport>> opened, std::uint64_t seed)
      : lanes(std::move(opened)),
        scoring(*lanes.back(), true),
        rank{*lanes.at(Lanes::kOwn), clock, open_backgrounds(), lock, seed, &scoring, further} {}

  // Returns the first.
  Background& open_backgrounds() {
    for (std::size_t lane = Lanes::kFirstBackground; lane + 1 < lanes.size(); ++lane)
      backgrounds.emplace_back(*lanes[lane]);
    for (std::size_t i = 1; i < backgrounds.size(); ++i) further.push_back(&backgrounds[i]);
    return backgrounds.at(0);
  }
};

RealRank::RealRank(std::vector<std::unique_ptr<Transport>> lanes, std::uint64_t seed)
    : parts_(std::make_unique<Parts>(std::move(lanes), seed)) {}

RealRank::~RealRank() = default;

Rank& RealRank::rank() { return parts_->rank; }

}  // namespace lockstep
