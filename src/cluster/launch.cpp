#include "cluster/launch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "cluster/blocked_signals.h"
#include "cluster/child.h"
#include "cluster/coordinator.h"
#include "cluster/host.h"
#include "cluster/job_key.h"
#include "cluster/output.h"
#include "cluster/placement.h"
#include "cluster/verdict.h"
#include "core/error.h"
#include "transport/awake_clock.h"

namespace lockstep {
namespace {

// A worker as the launcher sees it: its process, where it runs, and its output on the way to ours.
struct Worker {
  // `listener`: for its standard output, if anybody listens; else that is printed to `to_out`.
  Worker(int rank, std::string host, const std::string& prefix, LinePrinter::Listener listener,
         Output& to_out, Output& to_err, const std::vector<std::string>& argv,
         const std::vector<std::string>& environment, int key_fd)
      : rank(rank),
        host(std::move(host)),
        child(argv, environment, key_fd),
        out(listener ? LinePrinter(std::move(listener)) : LinePrinter(to_out, prefix)),
        err(to_err, prefix) {}

  int rank;
  std::string host;
  Child child;
  LinePrinter out, err;
  bool out_open = true, err_open = true;
  bool stopped_by_us = false;  // we had sent it a signal before it ended
  double lost_at = 1e300;      // when the others were seen to go on without it

  std::string name() const {
    return fmt::format("rank {} (pid {} on host {})", rank, child.pid(), host);
  }
};

// How many threads a worker gets: `asked` each, or if that is 0 what the environment says, else
// cores / workers, at least 1. Adds the variables for it and says what was chosen.
std::string choose_threads(int asked, int workers, Variables& variables) {
  if (asked == 0 && environment_has("OMP_NUM_THREADS"))
    return "threads each as OMP_NUM_THREADS says";
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = asked > 0 ? asked : std::max(1, cores / workers);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    if (asked > 0 || !environment_has(name)) variables.emplace_back(name, std::to_string(threads));
  return fmt::format("{} thread{} each", threads, threads == 1 ? "" : "s");
}

constexpr double kLookSeconds = 0.1;   // how often the coordinator's news is looked at
constexpr double kTermSeconds = 2;     // from SIGTERM to SIGKILL
constexpr double kDrainSeconds = 0.5;  // for output that a stray grandchild keeps open
constexpr double kSaySeconds = 0.5;    // for a reader of our last words
constexpr double kNever = 1e300;

}  // namespace

class Launch::Parts {
 public:
  explicit Parts(const LaunchOptions& options)
      : options_(options),
        out_(options.out),
        err_(options.err),
        place_{options.workers, ranks_per_host(), options.guests} {
    check();
    if (!out_) out_ = &own_out_.emplace(STDOUT_FILENO);
    if (!err_) err_ = &own_err_.emplace(STDERR_FILENO);
    if (options.netns) hosts_.emplace(*options.netns);
    open_coordinator();
    if (options.before_start) options.before_start();
    key_fd_ = key_descriptor(key_);
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) throw_errno("eventfd");
    say(fmt::format("{} ranks, {}", options.workers,
                    choose_threads(options_.threads_per_worker, options_.workers, threads_)));
    for (int rank = 0; rank < options.workers; ++rank) start(rank);
    close(key_fd_);
  }
  ~Parts() { close(wake_fd_); }

  int wait() {
    while (anyone([](const Worker& w) { return w.child.running() || w.out_open || w.err_open; })) {
      wait_for_news();
      take_requests();
      for (auto& worker : workers_) look_at(*worker);
      if (!anyone([](const Worker& w) { return w.child.running(); })) {
        ended_at_ = std::min(ended_at_, clock_.now());
        const bool waits_for_reader = out_->full() && told_to_stop_ == 0;
        if (clock_.now() > ended_at_ + kDrainSeconds && !waits_for_reader) break;
      }
      end_the_rest();
    }
    return conclude();
  }

  void stop(int signal) {
    requested_.store(signal);
    eventfd_write(wake_fd_, 1);
  }

  int told_to_stop() const { return told_to_stop_; }
  bool all_exited_with(int status) const {
    return !anyone([&](const Worker& w) {
      const int end = w.child.wait_status();
      return !WIFEXITED(end) || WEXITSTATUS(end) != status;
    });
  }
  const std::string& verdict() const { return verdict_.sentence; }
  const Worker& worker(int rank) const { return *workers_.at(rank); }
  std::string address() const { return coordinator_->address().text(); }

 private:
  void say(const std::string& line) { err_->say("lockstep: " + line + "\n"); }

  int ranks_per_host() const {
    return options_.netns ? options_.netns->ranks_per_host : options_.workers;
  }

  void check() const {
    if (options_.workers < 1)
      throw UsageError(fmt::format("{} workers cannot be: at least 1", options_.workers));
    if (options_.netns &&
        options_.workers - options_.guests > options_.netns->hosts * ranks_per_host())
      throw UsageError(fmt::format("{} workers don't fit on {} hosts with {} ranks each",
                                   options_.workers, options_.netns->hosts, ranks_per_host()));
  }

  void open_coordinator() {
    key_ = options_.key_file.empty() ? random_key() : key_from_file(options_.key_file);
    CoordinatorOptions coordinator{{"127.0.0.1", 0}, options_.workers, key_};
    std::optional<InNamespace> inside;
    if (hosts_) {
      inside.emplace(hosts_->bridge_fd());
      coordinator.listen.host = NetnsHosts::bridge_address();
    }
    if (!options_.listen.empty())
      coordinator.listen = parse_address(options_.listen, "--listen", 0);
    coordinator_.emplace(coordinator);
  }

  void start(int rank) {
    const HostSlot place = place_.of(rank);
    Variables variables = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(options_.workers)},
                           {"LOCAL_RANK", std::to_string(place.local_rank)},
                           {"LOCAL_WORLD_SIZE", std::to_string(place.local_size)},
                           {"MASTER_ADDR", coordinator_->address().host},
                           {"MASTER_PORT", std::to_string(coordinator_->address().port)},
                           {"LOCKSTEP_KEY_FD", std::to_string(key_fd_)},
                           {"LOCKSTEP_LAUNCHER_PID", std::to_string(getpid())},
                           {"LOCKSTEP_TRANSPORT", options_.transport}};
    if (hosts_) variables.emplace_back("LOCKSTEP_IFACE", NetnsHosts::kIface);
    variables.insert(variables.end(), threads_.begin(), threads_.end());
    variables.insert(variables.end(), options_.environment.begin(), options_.environment.end());
    std::optional<InNamespace> inside;
    if (hosts_) inside.emplace(hosts_->host_fd(place.host));
    LinePrinter::Listener listener;
    if (options_.on_output)
      listener = [this, rank](std::string_view line) { options_.on_output(rank, line); };
    workers_.push_back(std::make_unique<Worker>(
        rank, hosts_ ? NetnsHosts::address_of(place.host) : host_name(),
        options_.prefix_output ? fmt::format("[{}] ", rank) : "", std::move(listener), *out_, *err_,
        options_.command, environment_with(variables), key_fd_));
    if (hosts_) hosts_->admit(place.host, workers_.back()->child.pid());
  }

  template <class Predicate>
  bool anyone(Predicate predicate) const {
    return std::any_of(workers_.begin(), workers_.end(), [&](auto& w) { return predicate(*w); });
  }

  void wait_for_news() {
    std::vector<pollfd> all = {{signals_.fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (const auto& w : workers_) {
      if (w->child.running()) all.push_back({w->child.pid_fd(), POLLIN, 0});
      if (w->out_open && may_print()) all.push_back({w->child.out_fd(), POLLIN, 0});
      if (w->err_open) all.push_back({w->child.err_fd(), POLLIN, 0});
    }
    poll(all.data(), all.size(), static_cast<int>(kLookSeconds * 1000));
  }

  // What can't be printed yet stays in the worker's pipe.
  bool may_print() const { return options_.on_output || !out_->full(); }

  void take_requests() {
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
    int signal = requested_.exchange(0);
    if (const int arrived = signals_.take()) signal = arrived;
    if (signal == 0) return;
    if (signal == SIGTSTP) return pause_all();
    if (told_to_stop_ != 0) kill_at_ = 0;  // told again: now
    if (told_to_stop_ == 0) kill_at_ = std::min(kill_at_, clock_.now() + options_.stop_seconds);
    told_to_stop_ = signal;
    send_all(signal == SIGKILL ? SIGKILL : SIGTERM);
  }

  // As Ctrl-Z asks: workers, which have process groups of their own, stand still as long as we do.
  void pause_all() {
    for (auto& worker : workers_) worker->child.send(SIGSTOP);
    raise(SIGSTOP);  // until somebody lets us go on
    for (auto& worker : workers_) worker->child.send(SIGCONT);
  }

  void look_at(Worker& worker) {
    if (worker.out_open && may_print())
      worker.out_open = worker.out.read_from(worker.child.out_fd());
    if (worker.err_open) worker.err_open = worker.err.read_from(worker.child.err_fd());
    if (!worker.child.running() || !worker.child.reap()) return;
    const int status = worker.child.wait_status();
    // Those that we stopped are nobody's reason for anything.
    if (worker.stopped_by_us) return;
    if (status == 0)
      coordinator_->members().report_end(worker.rank);
    else
      coordinator_->members().report_death(worker.rank, "it " + ending_text(status));
    if (status != 0 && !options_.goes_on) note_failure();
  }

  void note_failure() { failed_at_ = std::min(failed_at_, clock_.now()); }

  // Once a rank failed, the others may end by themselves, then must.
  void end_the_rest() {
    if (options_.goes_on && told_to_stop_ == 0) bury_the_dead();
    if (has_failed(coordinator_->members(), options_.goes_on)) note_failure();
    const double now = clock_.now();
    if (now > failed_at_ + options_.grace_seconds && kill_at_ == kNever) {
      kill_at_ = now + std::min(kTermSeconds, options_.grace_seconds);
      send_all(SIGTERM);
    }
    if (now > kill_at_) send_all(SIGKILL);
  }

  // Tells of each worker that is lost, once. One that failed ends by itself, with its own last
  // words. One that was silent for too long may run on: the others have gone on without it, and it
  // must not come back.
  void bury_the_dead() {
    for (const protocol::Death& death :
         coordinator_->members().deaths(static_cast<int>(told_of_))) {
      ++told_of_;
      Worker& worker = *workers_[death.rank];
      say(fmt::format("{} is lost: {}", worker.name(), death.reason));
      worker.lost_at = clock_.now();
    }
    for (auto& worker : workers_)
      if (worker->child.running() && clock_.now() > worker->lost_at + kTermSeconds)
        worker->child.send(SIGKILL);
  }

  void send_all(int signal) {
    for (auto& worker : workers_) {
      if (!worker->child.running()) continue;
      worker->stopped_by_us = true;
      worker->child.send(signal);
    }
  }

  int conclude() {
    std::vector<ProcessEnd> ends;
    for (const auto& worker : workers_)
      ends.push_back({worker->name(), worker->child.wait_status(), worker->stopped_by_us});
    verdict_ = judge(ends, coordinator_->members(), options_.goes_on, told_to_stop_);
    if (!verdict_.sentence.empty()) say(verdict_.sentence);
    if (told_to_stop_ != 0)
      for (auto* own : {&own_out_, &own_err_})
        if (*own) (*own)->hurry(kSaySeconds);
    err_->drain(kSaySeconds);
    return verdict_.status;
  }

  const LaunchOptions options_;
  // Before the signals are blocked: what waits for a reader at the end can be interrupted.
  std::optional<Output> own_out_, own_err_;
  Output* out_;
  Output* err_;
  const Placement place_;
  BlockedSignals signals_;  // before any thread starts
  std::optional<NetnsHosts> hosts_;
  std::string key_;
  int key_fd_ = -1;
  std::optional<Coordinator> coordinator_;
  Variables threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int wake_fd_ = -1;
  std::atomic<int> requested_{0};
  int told_to_stop_ = 0;
  AwakeClock clock_;
  double failed_at_ = kNever, kill_at_ = kNever, ended_at_ = kNever;
  Verdict verdict_;
  std::size_t told_of_ = 0;  // deaths
};

Launch::Launch(const LaunchOptions& options) : parts_(std::make_unique<Parts>(options)) {}

Launch::~Launch() = default;

int Launch::wait() { return parts_->wait(); }

int Launch::told_to_stop() const { return parts_->told_to_stop(); }

bool Launch::all_exited_with(int status) const { return parts_->all_exited_with(status); }

void Launch::stop(int signal) { parts_->stop(signal); }

std::string Launch::verdict() const { return parts_->verdict(); }

int Launch::pid(int rank) const { return parts_->worker(rank).child.pid(); }

std::string Launch::address() const { return parts_->address(); }

}  // namespace lockstep
