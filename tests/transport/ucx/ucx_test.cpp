// What is particular to UCX: where it listens, how it sleeps, and what a killed process looks like.
#include "transport/ucx/ucx.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "cluster/sockets.h"
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
      Pending in = r.peers.recv(1, kTag, bytes_of(got));
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
TEST(Ucx, ASendToADepartedPeerCanBeGivenUp) {
  run_ucx(2, [](Rank& r) {
    std::vector<std::byte> large(8 << 20);
    int go = 0;
    if (r.rank() == 1) {
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(go)));
      return;
    }
    Pending stuck = r.peers.send(1, {Purpose::gradients, 2}, {large.data(), large.size()});
    r.peers.wait(r.peers.send(1, kTag, bytes_of(go)));
    EXPECT_TRUE(r.peers.give_up(stuck.request()));
  });
}

TEST(Ucx, ASendNobodyAsksForEndsAtTheDeadlineAndCanBeGivenUp) {
  FabricOptions options;
  options.patience_seconds = 0.3;
  run_ucx(
      2,
      [](Rank& r) {
        std::vector<std::byte> large(8 << 20);
        int go = 0;
        if (r.rank() == 0) {
          Pending stuck = r.peers.send(1, kTag, {large.data(), large.size()});
          EXPECT_THROW(r.peers.wait(stuck), TransportError);
          const double before = r.peers.now();
          EXPECT_TRUE(r.peers.give_up(stuck.request()));
          EXPECT_LT(r.peers.now() - before, 5);
        } else {  // rank 0 hangs up on this one
          EXPECT_THROW(
              r.peers.wait(r.peers.recv(0, {Purpose::setup, 1}, bytes_of(go)), {r.peers.now() + 5}),
              TransportError);
        }
      },
      options);
}

// Who reaches a rank's worker, but is no rank.
class Stranger {
 public:
  explicit Stranger(const std::string& victim) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(victim.data());
    if (ucp_ep_create(worker_.handle(), &params, &endpoint_) != UCS_OK) throw_errno("endpoint");
  }
  // In the name of a rank; arrives in the order sent. `tag` has what a Tag has.
  void say(int rank, ucp_tag_t tag, const std::string& bytes) {
    said_.push_back(bytes);
    ucp_request_param_t param{};
    const ucp_tag_t signed_tag = ucp_tag_t(rank) << UcxPeers::kTagRankShift | tag;
    const auto request =
        ucp_tag_send_nbx(endpoint_, said_.back().data(), said_.back().size(), signed_tag, &param);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  void progress() { worker_.progress(); }

 private:
  UcxWorker worker_{"lo"};
  ucp_ep_h endpoint_ = nullptr;
  std::deque<std::string> said_;
};

// Two ranks on this thread, whose signals are sealed, and a stranger that reaches rank 0.
class UcxStranger : public ::testing::Test {
 protected:
  UcxStranger() {
    std::vector<std::unique_ptr<UcxWorker>> workers;
    std::vector<std::string> addresses;
    for (int r = 0; r < 2; ++r) {
      workers.push_back(std::make_unique<UcxWorker>("lo"));
      addresses.push_back(workers[r]->address());
    }
    const Seal seal = [](const std::string& text) {
      return std::to_string(std::hash<std::string>()("a secret " + text));
    };
    for (int r = 0; r < 2; ++r)
      ranks_.push_back(std::make_unique<UcxTransport>(
          std::move(workers[r]), UcxPlace{r, {0, 0}, 60, seal}, addresses, deaths_[r]));
    stranger_.emplace(addresses[0]);
  }
  ~UcxStranger() override {
    // They leave at the same time, as processes do: each waits for the other to hear its goodbye.
    std::thread other([this] { ranks_[1].reset(); });
    ranks_[0].reset();
    other.join();
  }

  static ucp_tag_t bits(Tag tag) { return ucp_tag_t(tag.key()) << 8 | tag.format; }

  // Until all that the stranger said has come to rank 0.
  void await_stranger() {
    const Tag last{Purpose::setup, 99};
    stranger_->say(1, bits(last), "");
    const double deadline = wall_now() + 60;
    while (!ranks_[0]->probe(1, last) && wall_now() < deadline) stranger_->progress();
  }
  // From rank 1 to rank 0.
  Arrival exchange(std::uint64_t& got) {
    std::uint64_t value = 77;
    Pending in = ranks_[0]->recv(1, kTag, bytes_of(got));
    Pending out = ranks_[1]->send(0, kTag, bytes_of(value));
    std::optional<Ending> ending;
    for (bool sent = false; !ending || !sent;) {
      if (!sent) sent = ranks_[1]->test(out.request()).has_value();
      if (!ending) ending = ranks_[0]->test(in.request());
    }
    return ending->or_throw();
  }

  Deaths deaths_[2] = {Deaths(2), Deaths(2)};
  std::vector<std::unique_ptr<Transport>> ranks_;
  std::optional<Stranger> stranger_;
};

TEST_F(UcxStranger, AForgedGoodbyeEndsNobody) {
  for (const std::string& seal : {std::string(), std::string(32, 'x'), std::string(1000, 'x')})
    for (const int rank : {1, 0, 2, 0xffff})
      for (const ucp_tag_t kind : {0, 1, 2, 3, 255})  // a goodbye is 1
        for (const ucp_tag_t blamed : {0x0000, 0xffff, 0x10001, 0x17fff})
          stranger_->say(rank, UcxPeers::kTagSignal | kind << 32 | blamed, seal);
  await_stranger();
  std::uint64_t got = 0;
  Pending in = ranks_[0]->recv(1, kTag, bytes_of(got));
  EXPECT_TRUE(ranks_[0]->ending(in, {wall_now() + 0.1}).late());
  ASSERT_TRUE(ranks_[0]->give_up(in.request()));
  EXPECT_EQ(exchange(got).from, 1);
  EXPECT_EQ(got, 77u);
  EXPECT_EQ(deaths_[0].count(), 0);
}

TEST_F(UcxStranger, WhatIsSentInNobodysNameIsDropped) {
  for (const int rank : {2, 0, 0x7fff, 0xffff})  // 0 is the receiver itself
    for (const std::size_t size : {0, 8, 4000, 100'000})
      stranger_->say(rank, bits(kTag), std::string(size, 'x'));
  await_stranger();
  for (int i = 0; i < 3; ++i) {
    std::uint64_t got = 0;
    const Arrival arrival = exchange(got);
    EXPECT_EQ(arrival.from, 1);
    EXPECT_EQ(arrival.bytes, 8u);
    EXPECT_EQ(got, 77u);
  }
}

TEST_F(UcxStranger, WhatIsSentInNobodysNameIsNotFoundByAProbe) {
  stranger_->say(0xffff, bits(kTag), std::string(8, 'x'));
  stranger_->say(2, bits(kTag), std::string(100'000, 'x'));
  await_stranger();
  EXPECT_FALSE(ranks_[0]->probe(kAnyRank, kTag));
}

TEST(Ucx, OnlyHostsThatAreAdmittedConnect) {
  UcxWorker worker("lo");
  const int port = listening_ports(getpid()).at(0);
  EXPECT_TRUE(lets_in("127.0.0.2", port));
  worker.admit_only({});
  EXPECT_FALSE(lets_in("127.0.0.1", port));
  worker.admit_only({"127.0.0.3", "::1", "127.0.0.1"});
  EXPECT_TRUE(lets_in("127.0.0.1", port));
  EXPECT_TRUE(lets_in("127.0.0.3", port));
  EXPECT_FALSE(lets_in("127.0.0.2", port));
  worker.admit_all();
  EXPECT_TRUE(lets_in("127.0.0.2", port));
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

  // A rank that has stopped itself stays so until it is told to go on.
  void await_stop(int rank) { waitpid(pids_[rank], nullptr, WUNTRACED); }
  void go_on(int rank) { kill(pids_[rank], SIGCONT); }

  // The signal that ended it; 0 if it came to its end by itself.
  int await_end(int rank) {
    int status = 0;
    waitpid(std::exchange(pids_[rank], 0), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
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
    Pending request = t.recv(previous, kTag, {in.data(), n});
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

// It was killed before it could greet anybody, or while its greeting was on the way.
TEST(UcxKill, OneThatNeverAnsweredDied) {
  Processes ranks(2);
  ranks.start([](Transport& t, const std::function<void()>& lap) {
    lap();
    if (t.rank() == 1) pause();
    t.wait(t.recv(1, kTag, {}));
  });
  for (const int r : {0, 1}) ranks.await_laps(r, 1);
  ranks.end(1);
  EXPECT_THAT(ranks.report(0), ::testing::StartsWith("dead 1: "));
}

// A message is half written when its receiver dies, and before the sender can see that, it has
// something to read: so it is the next write that fails, not a read.
TEST(UcxKill, ASenderSurvivesTheDeathThatAWriteFindsFirst) {
  static constexpr std::size_t kMoreThanSocketsHold = 64 << 20;
  static constexpr Tag kNews{Purpose::gradients, 2};
  Processes ranks(2);
  ranks.start([](Transport& t, const std::function<void()>& lap) {
    std::vector<std::byte> large(kMoreThanSocketsHold, std::byte(1 - t.rank()));
    char news = 0;
    if (t.rank() == 1) {
      Pending in = t.recv(0, kTag, {large.data(), large.size()});
      while (large[0] == std::byte{0}) (void)t.test(in.request());
      t.wait(t.send(0, kNews, bytes_of(news)));  // that we read no more
      raise(SIGSTOP);
      t.wait(t.send(0, kNews, bytes_of(news)));
      lap();
      pause();
    }
    Pending out = t.send(1, kTag, {large.data(), large.size()});
    t.wait(t.recv(1, kNews, bytes_of(news)));
    for (int i = 0; i < 10'000; ++i)
      (void)t.test(out.request());  // until nothing more can be written
    raise(SIGSTOP);
    t.wait(out);
  });
  for (const int r : {0, 1}) ranks.await_stop(r);
  ranks.go_on(1);
  ranks.await_laps(1, 1);
  ranks.end(1);
  ranks.go_on(0);
  ASSERT_EQ(ranks.await_end(0), 0);
  EXPECT_THAT(ranks.report(0), ::testing::StartsWith("dead 1: "));
}

INSTANTIATE_TEST_SUITE_P(Verdict, UcxKill, ::testing::Bool(), [](const auto& info) {
  return info.param ? "FromTheLauncher" : "FromUcxAlone";
});

}  // namespace
}  // namespace lockstep
