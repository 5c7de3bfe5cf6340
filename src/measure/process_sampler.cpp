// Samples of a rank with a process to itself: a thread looks at the process from beside. The rank
// never waits for it, and nothing that the rank computes depends on it.
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "measure/posted.h"
#include "measure/sampler.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

constexpr double kFlushSeconds = 1;

class ProcessSampler final : public Sampler {
 public:
  explicit ProcessSampler(const SamplerOptions& options)
      : options_(options), file_(options.path, options.header) {
    if (!options.interface.empty()) interface_.emplace(options.interface);
    if (!options.cgroup_prefix.empty()) cgroup_.emplace(options.cgroup_prefix);
    last_ = earlier_ = mark();
    thread_ = std::thread([this] { run(); });
  }
  ~ProcessSampler() override {
    try {
      finish();
    } catch (const std::exception&) {  // the run failed of something else already
    }
  }

  bool due() const override { return true; }

  void post(const RankProgress& progress) override {
    posted_.post(progress);
    if (failed_.load(std::memory_order_relaxed)) finish();
  }

  void finish() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      changed_.notify_one();
      thread_.join();
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  std::optional<MemoryPeaks> peaks() const override { return peaks_; }
  double cost_s() const override { return cost_s_; }

 private:
  // What shares of a core are worked out from.
  struct Mark {
    double at_s = 0;
    ProcessFigures process;
    std::optional<CgroupFigures> cgroup;
  };

  void run() {
    try {
      watch();
    } catch (const std::exception&) {
      error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    cost_s_ = static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }

  void watch() {
    double next_s = last_.at_s + options_.period_s, flushed_s = last_.at_s;
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::chrono::duration<double> rest(next_s - wall_now());
      const bool last = changed_.wait_for(lock, rest, [&] { return stopping_; });
      take(last);
      if (last || last_.at_s > flushed_s + kFlushSeconds) {
        file_.flush();
        flushed_s = last_.at_s;
      }
      if (last) return;
      // What was missed on a crowded machine is not made up for.
      next_s = std::max(next_s + options_.period_s, wall_now());
    }
  }

  Mark mark() {
    Mark now{wall_now(), process_.read(), {}};
    if (cgroup_ && cgroup_->there()) now.cgroup = cgroup_->read();
    return now;
  }

  void take(bool last) {
    const Mark now = mark();
    // The last one may come right after the one before, and shares of a moment mean nothing.
    const bool soon = last && now.at_s - last_.at_s < options_.period_s / 2;
    const Mark& since = soon ? earlier_ : last_;
    const double percent = now.at_s > since.at_s ? 100 / (now.at_s - since.at_s) : 0;
    posted_.look(progress_);
    Sample sample;
    sample.t = now.at_s - options_.origin_s;
    sample.rank = progress_;
    sample.process = now.process;
    sample.user_percent = percent * (now.process.user_s - since.process.user_s);
    sample.system_percent = percent * (now.process.system_s - since.process.system_s);
    if (interface_) {
      sample.interface_name = interface_->name();
      sample.interface = interface_->read();
    }
    sample.cgroup = now.cgroup;
    if (now.cgroup && now.cgroup->cpu_s && since.cgroup && since.cgroup->cpu_s)
      sample.cgroup_percent = percent * (*now.cgroup->cpu_s - *since.cgroup->cpu_s);
    file_.add(sample);
    peaks_.private_bytes = std::max(peaks_.private_bytes, now.process.private_bytes);
    peaks_.shared_bytes = std::max(peaks_.shared_bytes, now.process.shared_bytes);
    earlier_ = last_;
    last_ = now;
  }

  const SamplerOptions options_;
  Posted<RankProgress> posted_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  // The thread's own while it runs.
  SampleFile file_;
  ProcessProbe process_;
  std::optional<InterfaceProbe> interface_;
  std::optional<CgroupProbe> cgroup_;
  RankProgress progress_;
  Mark last_, earlier_;
  MemoryPeaks peaks_;
  double cost_s_ = 0;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Sampler> sampler_of_process(const SamplerOptions& options) {
  return std::make_unique<ProcessSampler>(options);
}

}  // namespace lockstep
