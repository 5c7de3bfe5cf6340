// What is particular to UCX: where it listens, how it sleeps, and what a killed process looks like.
#include "transport/ucx.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "transport/fabric.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

constexpr Tag kTag{Purpose::gradients, 1};

// The IPv4 addresses this process listens on.
std::vector<std::string> listening() {
  std::vector<std::string> addresses;
  for (int fd = 0; fd < 1024; ++fd) {
    int yes = 0;
    socklen_t length = sizeof yes;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &length) != 0 || !yes) continue;
    sockaddr_in at{};
    length = sizeof at;
    getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length);
    addresses.push_back(at.sin_family == AF_INET ? inet_ntoa(at.sin_addr) : "not IPv4");
  }
  return addresses;
}

TEST(Ucx, ListensOnlyOnTheGivenInterface) {
  const UcxWorker worker("lo");
  EXPECT_THAT(listening(), ::testing::ElementsAre("127.0.0.1"));
}

TEST(Ucx, AnUnknownInterfaceIsRefusedWithTheKnownOnes) {
  try {
    UcxWorker worker("lo0x");
    FAIL() << "no error";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("'lo0x'"),
                                           ::testing::HasSubstr("choose from lo")));
  }
}

TEST(Ucx, HollowBytesAreRefused) {
  run_ucx(2, [](Rank& r) {
    EXPECT_THROW((void)r.peers.send(1 - r.rank(), kTag, {nullptr, 8}), UsageError);
    EXPECT_THROW((void)r.peers.recv(1 - r.rank(), kTag, {nullptr, 8}), UsageError);
  });
}

double cpu_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(Ucx, AWaitThatGoesOnSleeps) {
  run_ucx(2, [](Rank& r) {
    int got = 0, done = 0;
    if (r.rank() == 0) {
      const Request in = r.peers.recv(1, kTag, bytes_of(got));
      EXPECT_THROW(r.peers.wait(in, {r.peers.now() + 0.2}), TransportError);  // now connected
      const double before = cpu_seconds();
      EXPECT_THROW(r.peers.wait(in, {r.peers.now() + 1}), TransportError);
      EXPECT_LT(cpu_seconds() - before, 0.02);  // both ranks'
      r.peers.wait(r.peers.send(1, kTag, bytes_of(done)));
      r.peers.wait(in);
    } else {
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(done)));
    }
  });
}

// A large send that nobody will ever ask for.
TEST(Ucx, CancellingASendToADepartedPeerReturns) {
  run_ucx(2, [](Rank& r) {
    std::vector<std::byte> large(8 << 20);
    int go = 0;
    if (r.rank() == 1) {
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(go)));
      return;
    }
    const Request stuck = r.peers.send(1, {Purpose::gradients, 2}, {large.data(), large.size()});
    r.peers.wait(r.peers.send(1, kTag, bytes_of(go)));
    EXPECT_TRUE(r.peers.cancel(stuck));
  });
}

TEST(Ucx, ASendNobodyAsksForEndsAtTheDeadlineAndCanBeCancelled) {
  FabricOptions options;
  options.patience_seconds = 0.3;
  run_ucx(
      2,
      [](Rank& r) {
        std::vector<std::byte> large(8 << 20);
        int go = 0;
        if (r.rank() == 0) {
          const Request stuck = r.peers.send(1, kTag, {large.data(), large.size()});
          EXPECT_THROW(r.peers.wait(stuck), TransportError);
          EXPECT_TRUE(r.peers.cancel(stuck));
        } else {  // rank 0 hangs up on this one
          EXPECT_THROW(
              r.peers.wait(r.peers.recv(0, {Purpose::setup, 1}, bytes_of(go)), {r.peers.now() + 5}),
              TransportError);
        }
      },
      options);
}

// Ranks as processes, which know of each other's end only what UCX and `deaths` tell them.
class Processes {
 public:
  // `lap` tells the parent that the work goes round.
  using Work = std::function<void(Transport&, const std::function<void()>& lap)>;

  explicit Processes(int ranks) : pids_(ranks), deaths_(ranks) {
    for (auto* pipes : {&up_, &down_, &laps_, &report_, &verdict_})
      for (int r = 0; r < ranks; ++r) {
        pipes->emplace_back();
        if (pipe(pipes->back().data()) != 0) throw_errno("pipe");
      }
  }
  ~Processes() {
    for (const pid_t pid : pids_)
      if (pid > 0) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
  }

  int size() const { return static_cast<int>(pids_.size()); }

  void start(const Work& work) {
    for (int r = 0; r < size(); ++r)
      if ((pids_[r] = fork()) == 0) child(r, work);
    std::string all;
    for (int r = 0; r < size(); ++r) all += read_block(up_[r]);
    for (int r = 0; r < size(); ++r) write_block(down_[r], all);
  }

  void await_laps(int rank, int laps) {
    char lap;
    while (laps > 0) laps -= static_cast<int>(read(laps_[rank][0], &lap, 1));
  }

  void end(int rank) {
    kill(pids_[rank], SIGKILL);
    waitpid(pids_[rank], nullptr, 0);
    pids_[rank] = 0;
  }

  // What a launcher would say.
  void tell(int rank, int dead) { write_block(verdict_[rank], std::string(1, char(dead))); }

  // How rank's work ended: "dead 2: …".
  std::string report(int rank) { return read_block(report_[rank]); }

 private:
  using Pipe = std::array<int, 2>;

  // Blocks are below PIPE_BUF, so one write and one read each.
  static std::string read_block(const Pipe& pipe) {
    char block[4096];
    const ssize_t n = read(pipe[0], block, sizeof block);
    return {block, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  }
  static void write_block(const Pipe& pipe, const std::string& s) {
    if (write(pipe[1], s.data(), s.size()) != static_cast<ssize_t>(s.size())) throw_errno("write");
  }

  [[noreturn]] void child(int rank, const Work& work) {
    std::string outcome = "done";
    std::thread([&, rank] {
      const std::string dead = read_block(verdict_[rank]);
      if (!dead.empty()) deaths_.report(dead[0], "killed by signal 9");
    }).detach();
    try {
      auto worker = std::make_unique<UcxWorker>("lo");
      const std::size_t length = worker->address().size();
      write_block(up_[rank], worker->address());
      const std::string all = read_block(down_[rank]);
      std::vector<std::string> addresses;
      for (int r = 0; r < size(); ++r) addresses.push_back(all.substr(r * length, length));
      UcxTransport transport(std::move(worker), {rank, std::vector<int>(size()), 60}, addresses,
                             deaths_);
      try {
        work(transport, [&] { write_block(laps_[rank], "."); });
      } catch (const TransportError& e) {
        const bool dead = e.kind() == TransportError::Kind::dead;
        outcome = fmt::format("{} {}: {}", dead ? "dead" : "other", e.peer(), e.what());
        write_block(report_[rank], outcome);
      }
    } catch (const std::exception& e) {
      write_block(report_[rank], fmt::format("failed: {}", e.what()));
    }
    _exit(0);
  }

  std::vector<pid_t> pids_;
  std::vector<Pipe> up_, down_, laps_, report_, verdict_;
  Deaths deaths_;  // each child's own copy
};

// Round a ring for ever, with messages of both kinds: sent at once, and asked for.
void circulate(Transport& t, const std::function<void()>& lap) {
  const int next = (t.rank() + 1) % t.size(), previous = (t.rank() + t.size() - 1) % t.size();
  std::vector<std::byte> out(4 << 20), in(4 << 20);
  for (std::size_t n = 64;; n = n == 64 ? out.size() : 64) {
    const Request request = t.recv(previous, kTag, {in.data(), n});
    t.wait(t.send(next, kTag, {out.data(), n}));
    t.wait(request);
    lap();
  }
}

class UcxKill : public ::testing::TestWithParam<bool> {};

TEST_P(UcxKill, EverySurvivorNamesTheDead) {
  const bool launcher_tells = GetParam();
  for (int round = 0; round < 3; ++round) {
    Processes ranks(4);
    ranks.start(circulate);
    for (const int r : {0, 1, 3}) ranks.await_laps(r, 1 + round);
    ranks.end(2);
    if (launcher_tells)
      for (const int r : {0, 1, 3}) ranks.tell(r, 2);
    for (const int r : {0, 1, 3})
      EXPECT_THAT(ranks.report(r), ::testing::StartsWith("dead 2: ")) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Verdict, UcxKill, ::testing::Bool(), [](const auto& info) {
  return info.param ? "FromTheLauncher" : "FromUcxAlone";
});

}  // namespace
}  // namespace lockstep
