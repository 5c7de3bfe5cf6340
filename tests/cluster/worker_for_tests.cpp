// A worker that does what it is told, so that the launcher and the job can be watched.
// worker_for_tests ACT [RANK]: rank RANK (default 1) misbehaves, the others exchange messages until
// they fail.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cluster/job.h"
#include "cluster/launch.h"
#include "cluster/netns.h"
#include "collectives/all_reduce.h"
#include "core/error.h"

using namespace lockstep;

namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// Passes a token round a ring, so many times; -1: until somebody is gone.
void pass_token(Rank& rank, int rounds) {
  const int next = (rank.rank() + 1) % rank.size(),
            before = (rank.rank() + rank.size() - 1) % rank.size();
  for (int i = 0; i != rounds && rank.size() > 1; ++i) {
    int token = rank.rank(), got = -1;
    const Tag tag{Purpose::setup, 7};
    Pending receive = rank.peers.recv(before, tag, bytes_of(got));
    Pending send = rank.peers.send(next, tag, bytes_of(token));
    rank.peers.wait(receive);
    rank.peers.wait(send);
    if (got != before) throw InternalError(fmt::format("got token {} from rank {}", got, before));
  }
}

// Until somebody is gone: every collective in turn, small and large.
void reduce_forever(Rank& rank) {
  const auto window = rank.peers.open_window(1 << 20);
  for (std::size_t i = 0;; ++i) {
    const std::size_t count = i % 3 == 0 ? 1 << 18 : 1000 + i % 5000;
    const auto& row = all_reduces()[i / 2 % all_reduces().size()];
    const bool out_of_reach = row.name == "shared" && !window->reaches_all();
    const Values values(window->mine().data, count, Type::fp32, Op::mean);
    all_reduce_named(out_of_reach ? "auto" : row.name)
        .run(rank.peers, {Purpose::gradients, 1}, values);
  }
}

void misbehave(const std::string& act) {
  if (act == "exit3") std::_Exit(3);
  if (act == "exit0") std::_Exit(0);
  if (act == "kill9") raise(SIGKILL);
  if (act == "stopped") raise(SIGSTOP);
  if (act == "throw") throw UsageError("this rank was told to throw");
}

void await_death_of(Rank& rank, int peer) {
  try {
    rank.peers.wait(rank.peers.recv(peer, {Purpose::setup, 8}, {}));
  } catch (const TransportError&) {
  }
}

// In a job that goes on without who is lost: rank 1 is killed, then rank 2 fails by itself.
void lose_two(Rank& rank, const std::string& act) {
  if (rank.rank() == 1) raise(act == "lose-stopped" ? SIGSTOP : SIGKILL);
  await_death_of(rank, 1);
  if (act == "lose-stopped") return;
  if (rank.rank() == 2) throw InternalError("rank 2 has had enough");
  if (act == "lose-two") await_death_of(rank, 2);
  if (act == "lose-all") pause();
}

// Rank 1 leaves at once, and has said nothing to anybody before.
void turn_to_one_that_left(Rank& rank) {
  if (rank.rank() == 1) return;
  try {
    rank.peers.wait(rank.peers.recv(1, {Purpose::setup, 8}, {}));
  } catch (const TransportError& error) {
    const bool left = error.kind() == TransportError::Kind::left;
    std::printf("rank 1 %s: %s\n", left ? "left" : "did not leave", error.what());
  }
}

int work(const std::string& act, int culprit) {
  const auto start = start_from(variable);
  if (!start) throw UsageError("worker_for_tests is started by a launcher");
  if (act == "early" && start->rank == culprit) return 5;
  JobOptions options;
  options.goes_on = act.starts_with("lose");
  Job job(*start, options);
  Rank& rank = job.rank();
  try {
    if (act != "lose-one-that-left") pass_token(rank, 10);
    std::printf("rank %d of %d is ready, host %d\n", rank.rank(), rank.size(),
                rank.peers.host_of(rank.rank()));
    std::fflush(stdout);
    if (act == "stubborn") signal(SIGTERM, SIG_IGN);
    if (act == "stubborn" || act == "hang") pause();
    while (act == "forever") {
      pass_token(rank, 1000);
      std::printf("rank %d: a token went round\n", rank.rank());
      std::fflush(stdout);
    }
    if (act == "lose-one-that-left") {
      turn_to_one_that_left(rank);
      return job.leave(), 0;
    }
    if (act == "all-reduce") reduce_forever(rank);
    if (act.starts_with("lose"))
      lose_two(rank, act);
    else if (act != "good") {
      if (rank.rank() == culprit) misbehave(act);
      pass_token(rank, -1);
    }
    job.leave();
  } catch (const std::exception& error) {
    job.fail(error, act == "lose-all");
    if (act == "lose-two") {
      usleep(300'000);  // it takes its time to end
      std::printf("rank %d ends by itself\n", start->rank);
    }
    throw;
  }
  return 0;
}

// Becomes a launcher, so that a test can kill one: prints the workers' pids.
int launch(const std::string& how, int workers, const std::string& act) {
  LaunchOptions options;
  options.workers = workers;
  options.command = how == "launch-sh" ? std::vector<std::string>{"sh", "-c", act}
                                       : std::vector<std::string>{"", act};
  if (how == "launch-netns") options.netns = NetnsOptions{workers, 1, 0};
  options.goes_on = act.starts_with("lose");
  if (how == "launch-ucx") options.transport = "ucx";
  if (how == "launch-netns-pairs") options.netns = NetnsOptions{(workers + 1) / 2, 2, 0};
  if (how == "launch-netns-crowded") options.netns = NetnsOptions{1, 1, 0};
  Launch launch(options);
  std::printf("coordinator at %s\n", launch.address().c_str());
  for (int r = 0; r < workers; ++r) std::printf("pid %d\n", launch.pid(r));
  std::fflush(stdout);
  return launch.wait();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string act = argc > 1 ? argv[1] : "good";
    if (act.starts_with("launch")) return launch(act, std::atoi(argv[2]), argv[3]);
    return work(act, argc > 2 ? std::atoi(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
