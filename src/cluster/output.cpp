#include "cluster/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostWaiting = 1 << 20, kLongestLine = 64 << 10;
// A pipe that poll() calls writable takes so much at once (PIPE_BUF), also if it is blocking.
constexpr std::size_t kAtOnce = 4096;
constexpr int kLookMs = 100;           // how often a thread that waits for a reader looks up
constexpr double kForever = 3e8;       // some ten years
constexpr double kLetGoSeconds = 0.5;  // for a thread whose work is over

Clock::duration of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

struct Output::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;  // the first of them is being written
  std::size_t bytes = 0;            // of those
  std::size_t left_out = 0;
  bool gone = false;    // nobody reads any more
  int failure = 0;      // why, unless the reader left
  bool closed = false;  // nobody writes any more
  bool ended = false;   // the thread has

  void add(std::string text) {  // REQUIRES: the lock
    if (gone || closed || text.empty()) return;
    bytes += text.size();
    waiting.push_back(std::move(text));
    changed.notify_all();
  }

  // False: give up.
  bool write_all(int descriptor, const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      pollfd writable{descriptor, POLLOUT, 0};
      const int ready = poll(&writable, 1, kLookMs);
      {
        const std::lock_guard lock(mutex);
        if (closed) return false;
      }
      if (ready <= 0) continue;
      const ssize_t n =
          ::write(descriptor, text.data() + done, std::min(kAtOnce, text.size() - done));
      if (n > 0) done += static_cast<std::size_t>(n);
      if (n >= 0 || errno == EAGAIN || errno == EINTR) continue;
      const std::lock_guard lock(mutex);
      failure = errno == EPIPE ? 0 : errno;
      return false;
    }
    return true;
  }

  void run(int descriptor) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return closed || !waiting.empty(); });
      if (closed) break;
      const std::string text = std::move(waiting.front());
      lock.unlock();
      const bool written = write_all(descriptor, text);
      lock.lock();
      bytes -= text.size();
      waiting.pop_front();
      if (!written) {
        gone = true;
        waiting.clear();
        bytes = 0;
      }
      changed.notify_all();
    }
    ended = true;
    changed.notify_all();
  }
};

Output::Output(int descriptor)
    : descriptor_(descriptor), queue_(std::make_shared<Queue>()), patience_s_(kForever) {
  // Signals are for other threads. Without SIGPIPE, a write to a pipe that nobody reads says so by
  // errno.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([queue = queue_, descriptor] { queue->run(descriptor); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Output::~Output() {
  drain();
  bool ended = false;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->closed = true;
    queue_->changed.notify_all();
    ended = queue_->changed.wait_for(lock, of(kLetGoSeconds), [&] { return queue_->ended; });
  }
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void Output::say(std::string text) {
  const std::lock_guard lock(queue_->mutex);
  queue_->add(std::move(text));
}

void Output::mention(std::string text) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->waiting.empty()) queue_->add(std::move(text));
}

void Output::pass_on(std::string text) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->bytes > kMostWaiting) {
    ++queue_->left_out;
    return;
  }
  if (queue_->left_out > 0)
    queue_->add(fmt::format("({} pieces of output left out: nobody read them in time)\n",
                            std::exchange(queue_->left_out, 0)));
  queue_->add(std::move(text));
}

int Output::failure() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->failure;
}

bool Output::full() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->bytes > kMostWaiting;
}

void Output::drain(double seconds) {
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait_for(lock, of(seconds),
                           [&] { return queue_->gone || queue_->waiting.empty(); });
}

int delivered(int status, Output& out, Output& err, const std::string& kept_in) {
  out.drain();
  const int failure = out.failure();
  if (failure == 0) return status;
  err.say(fmt::format("lockstep: can't write to stdout: {}; what came of it is in {}\n",
                      std::strerror(failure), kept_in));
  return status == 0 ? 1 : status;
}

void LinePrinter::add(std::string_view bytes) {
  rest_ += bytes;
  const auto end = rest_.rfind('\n');
  if (end != std::string::npos) {
    print(std::string_view(rest_).substr(0, end + 1));
    rest_.erase(0, end + 1);
  }
  if (rest_.size() > kLongestLine) finish();
}

void LinePrinter::finish() {
  if (rest_.empty()) return;
  print(rest_ + "\n");
  rest_.clear();
}

bool LinePrinter::read_from(int fd) {
  char bytes[16 << 10];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0) {
      add({bytes, static_cast<std::size_t>(n)});
    } else if (n < 0 && errno == EAGAIN) {
      return true;
    } else if (n == 0 || errno != EINTR) {
      finish();
      return false;
    }
  }
}

void LinePrinter::print(std::string_view lines) {
  if (listener_) {
    for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1))
      listener_(lines.substr(0, lines.find('\n')));
    return;
  }
  // All of them at once, so that lines of ours and of others don't mix.
  std::string text;
  while (!lines.empty()) {
    const auto length = lines.find('\n') + 1;
    text += prefix_;
    text += lines.substr(0, length);
    lines.remove_prefix(length);
  }
  to_->pass_on(std::move(text));
}

}  // namespace lockstep
