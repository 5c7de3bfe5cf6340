#include "cli/launched.h"

#include <chrono>

#include "cli/interrupt.h"

namespace lockstep {
namespace {
constexpr std::chrono::milliseconds kLeave{500};     // to see that the bench has gone
constexpr std::chrono::milliseconds kVerdict{5000};  // to notice a death and end the others
}  // namespace

Launched::Launched(const LaunchOptions& options) {
  std::promise<void> promise;
  std::future<void> started = promise.get_future();
  verdict_ =
      std::async(std::launch::async, [this, options, promise = std::move(promise)]() mutable {
        try {
          launch_.emplace(options);
        } catch (...) {
          promise.set_exception(std::current_exception());
          return bench::Verdict();
        }
        promise.set_value();
        const int status = launch_->wait();
        if (launch_->told_to_stop() != 0 && !stopping_) Interrupt::request(launch_->told_to_stop());
        return bench::Verdict{launch_->verdict(), status};
      });
  started.get();
}

Launched::~Launched() {
  const bool left = verdict_.wait_for(kLeave) == std::future_status::ready;
  stopping_ = true;
  if (!left) launch_->stop();
  verdict_.wait();
}

bench::Verdict Launched::verdict() {
  const bool known = verdict_.wait_for(kVerdict) == std::future_status::ready;
  return known ? verdict_.get() : bench::Verdict();
}

}  // namespace lockstep
