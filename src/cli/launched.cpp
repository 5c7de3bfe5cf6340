#include "cli/launched.h"

#include <sys/eventfd.h>

#include <chrono>
#include <csignal>

namespace lockstep {
namespace {
constexpr std::chrono::milliseconds kLeave{500};     // to see that the bench has gone
constexpr std::chrono::milliseconds kVerdict{5000};  // to notice a death and end the others
}  // namespace

Launched::Launched(const LaunchOptions& options, int interrupt) {
  std::promise<void> promise;
  std::future<void> started = promise.get_future();
  verdict_ = std::async(std::launch::async, [this, options, interrupt,
                                             promise = std::move(promise)]() mutable {
    try {
      launch_.emplace(options);
    } catch (...) {
      promise.set_exception(std::current_exception());
      return std::string();
    }
    promise.set_value();
    const int status = launch_->wait();
    const bool told = status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
    if (told && !stopping_) eventfd_write(interrupt, 1);
    return launch_->verdict();
  });
  started.get();
}

Launched::~Launched() {
  const bool left = verdict_.wait_for(kLeave) == std::future_status::ready;
  stopping_ = true;
  if (!left) launch_->stop();
  verdict_.wait();
}

std::string Launched::verdict() {
  return verdict_.wait_for(kVerdict) == std::future_status::ready ? verdict_.get() : "";
}

}  // namespace lockstep
