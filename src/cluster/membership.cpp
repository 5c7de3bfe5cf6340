#include "cluster/membership.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <tuple>

#include "cluster/Control.h"
#include "cluster/host.h"
#include "cluster/job_key.h"
#include "cluster/protocol_constants.h"
#include "core/error.h"
#include "transport/real_rank.h"

namespace lockstep {

namespace thrift = apache::thrift;

namespace {

constexpr int kLongestFrame = 64 << 10;
constexpr int kConnectMs = 2'000;
constexpr auto kRetryPause = std::chrono::milliseconds(20);
constexpr auto kRosterPause = std::chrono::milliseconds(5);
constexpr const char* kCoordinatorLost[] = {"the coordinator was lost",
                                            "the coordinator, which rank 0 served, was lost"};

// Has somebody stopped this process of our machine, as Ctrl-Z and SIGSTOP do?
bool is_stopped(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(") ");  // of a name that may hold anything
  return name_end != std::string::npos && (line[name_end + 2] == 'T' || line[name_end + 2] == 't');
}

// Waits for what it reads by a clock that stands still when we do, or when our launcher does.
class PatientSocket final : public thrift::transport::TSocket {
 public:
  PatientSocket(const Address& address, std::shared_ptr<thrift::TConfiguration> config,
                int launcher_pid, double patience_s)
      : TSocket(address.host, address.port, std::move(config)),
        launcher_pid_(launcher_pid),
        patience_s_(patience_s) {}

  std::uint32_t read(std::uint8_t* into, std::uint32_t size) override {
    for (Countdown time(patience_s_); isOpen();) {
      pollfd readable{getSocketFD(), POLLIN, 0};
      if (poll(&readable, 1, static_cast<int>(time.nap() * 1000) + 1) > 0)
        return TSocket::read(into, size);
      if (launcher_pid_ != 0 && is_stopped(launcher_pid_)) time = Countdown(patience_s_);
      if (time.left() <= 0)
        throw thrift::transport::TTransportException(
            thrift::transport::TTransportException::TIMED_OUT,
            fmt::format("it did not answer for {:.0f} s", patience_s_));
    }
    return TSocket::read(into, size);  // says what is wrong
  }

 private:
  const int launcher_pid_;
  const double patience_s_;
};

void throw_if_dead(const protocol::Roster& roster) {
  if (roster.deaths.empty()) return;
  const auto& [rank, reason] = std::tie(roster.deaths[0].rank, roster.deaths[0].reason);
  throw TransportError(TransportError::Kind::dead, rank,
                       fmt::format("rank {} died before all ranks were ready: {}", rank, reason));
}

}  // namespace

struct ControlClient::Connection {
  Connection(const Address& address, int launcher_pid, double answer_s)
      : config(std::make_shared<thrift::TConfiguration>(kLongestFrame, kLongestFrame)),
        socket(std::make_shared<PatientSocket>(address, config, launcher_pid, answer_s)),
        framed(std::make_shared<thrift::transport::TFramedTransport>(socket, config)),
        client(std::make_shared<thrift::protocol::TBinaryProtocol>(framed)) {
    socket->setConnTimeout(kConnectMs);
    socket->setSendTimeout(static_cast<int>(answer_s * 1000));
    socket->open();
    fcntl(socket->getSocketFD(), F_SETFD, FD_CLOEXEC);
  }

  std::shared_ptr<thrift::TConfiguration> config;
  std::shared_ptr<thrift::transport::TSocket> socket;
  std::shared_ptr<thrift::transport::TFramedTransport> framed;
  protocol::ControlClient client;
};

template <class Call>
void ControlClient::ask(Call call) {
  try {
    call(connection_->client);
  } catch (const protocol::Refused& refused) {
    throw UsageError(fmt::format("the coordinator at {} refused: {}", address_, refused.why));
  } catch (const thrift::TException& error) {
    throw TransportError(TransportError::Kind::dead, -1,
                         fmt::format("the coordinator at {} was lost: {}", address_, error.what()));
  }
}

ControlClient::ControlClient(const Start& start, Countdown& time, double answer_seconds)
    : address_(start.address) {
  // It would print a line for every try while the coordinator is not there yet.
  thrift::GlobalOutput.setOutputFunction([](const char*) {});
  const Address address = parse_address(start.address, "the coordinator's address");
  for (;;) {
    const char* failed = "no coordinator answers at {}: {}";
    try {
      connection_ = std::make_unique<Connection>(address, start.launcher_pid, answer_seconds);
      failed = "the coordinator at {} hung up on the handshake: {}";
      prove_both(start);
      return;
    } catch (const protocol::Refused& refused) {
      throw UsageError(fmt::format("the coordinator at {} refused: {}", address_, refused.why));
    } catch (const thrift::TException& error) {
      // It may start later than its workers, or be crowded by strangers.
      if (time.left() <= 0)
        throw TransportError(TransportError::Kind::deadline, 0,
                             fmt::format(fmt::runtime(failed), address_, error.what()));
      std::this_thread::sleep_for(kRetryPause);
    }
  }
}

void ControlClient::prove_both(const Start& start) {
  Transcript transcript{protocol::g_protocol_constants.VERSION, start.rank, start.size,
                        random_nonce(), ""};
  connection_->client.hello(transcript.coordinator_nonce, transcript.version, transcript.rank,
                            transcript.size, transcript.worker_nonce);
  if (transcript.coordinator_nonce.size() != kNonceBytes)
    throw UsageError(fmt::format("what answers at {} is no coordinator of ours", address_));
  std::string proof;
  try {
    connection_->client.prove(proof, proof_of(start.key, Prover::worker, transcript));
  } catch (const protocol::Refused& refused) {
    throw UsageError(fmt::format("the coordinator at {} refused the job key of rank {}: {}",
                                 address_, start.rank, refused.why));
  }
  if (!same_proof(proof, proof_of(start.key, Prover::coordinator, transcript)))
    throw UsageError(
        fmt::format("what answers at {} could not prove that it knows the job key: it is not this "
                    "job's coordinator",
                    address_));
}

ControlClient::~ControlClient() = default;

std::string ControlClient::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = "";
  getsockname(connection_->socket->getSocketFD(), reinterpret_cast<sockaddr*>(&address), &length);
  getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
              NI_NUMERICHOST);
  return text;
}

Membership::Membership(const Start& start, double seconds)
    : rank_(start.rank),
      size_(start.size),
      served_by_rank_0_(start.launcher_pid == 0),
      time_(seconds),
      control_(start, time_) {}

Membership::~Membership() { stop(); }

std::vector<protocol::Member> Membership::join(const protocol::Member& me) {
  control_.ask([&](auto& client) { client.join(me); });
  return await(1, "join");
}

std::vector<protocol::Member> Membership::offer(int memory_fd,
                                                const std::vector<std::string>& addresses) {
  control_.ask([&](auto& client) { client.offer(memory_fd, addresses); });
  return await(2, "say how they are reached");
}

void Membership::ready(const std::function<void()>& meanwhile) {
  control_.ask([](auto& client) { client.ready(); });
  await(3, "be ready", meanwhile);
}

protocol::Roster Membership::roster_of(int round, int first) {
  protocol::Roster roster;
  control_.ask([&](auto& client) { client.roster(roster, round, first); });
  return roster;
}

std::vector<protocol::Member> Membership::await(int round, const char* deed,
                                                const std::function<void()>& meanwhile) {
  std::vector<protocol::Member> members;
  while (static_cast<int>(members.size()) < size_) {
    auto roster = roster_of(round, static_cast<int>(members.size()));
    throw_if_dead(roster);
    for (auto& member : roster.members) members.push_back(std::move(member));
    if (roster.missing.empty()) continue;
    throw_if_late(roster.missing, deed);
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(kRosterPause);
  }
  return members;
}

void Membership::throw_if_late(const std::vector<int>& missing, const char* deed) {
  if (time_.left() <= 0)
    throw TransportError(
        TransportError::Kind::deadline, missing[0],
        fmt::format("rank {} waited for all {} ranks to {}, but still missing are: rank {}", rank_,
                    size_, deed, fmt::join(missing, ", rank ")));
}

void Membership::still_meets(const std::vector<int>& unmet) {
  look_for_deaths(0);
  throw_if_late(unmet, "connect with it");
}

void Membership::look_for_deaths(double seconds) {
  for (Countdown time(seconds);; std::this_thread::sleep_for(kRosterPause)) {
    throw_if_dead(roster_of(3, 0));
    if (time.left() <= 0) return;
  }
}

void Membership::watch(Deaths& deaths) {
  deaths.heard_until(0);
  thread_ = std::thread([this, &deaths] {
    beat(deaths);
    deaths.heard_until(std::numeric_limits<double>::infinity());  // nobody is to wait for more
  });
}

void Membership::beat(Deaths& deaths) {
  int known = 0, departed = 0;
  std::unique_lock lock(mutex_);
  const auto period = std::chrono::duration<double>(kHeartbeatSeconds);
  while (!stopped_.wait_for(lock, period, [this] { return stopping_; })) {
    lock.unlock();
    try {
      const double asked = wall_now();
      protocol::News news;
      control_.ask([&](auto& client) { client.heartbeat(news, known, departed); });
      for (const int rank : news.departed) {
        ++departed;
        if (rank >= 0 && rank < size_) deaths.report_left(rank);
      }
      for (const auto& death : news.deaths) {
        ++known;
        if (death.rank >= 0 && death.rank < size_ && death.rank != rank_)
          deaths.report(death.rank, death.reason);
      }
      if (!news.more) deaths.heard_until(asked);
    } catch (const Error&) {
      for (int r = 0; r < size_; ++r)
        if (r != rank_ && !deaths.left(r)) deaths.report(r, kCoordinatorLost[served_by_rank_0_]);
      return;
    }
    lock.lock();
  }
}

void Membership::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Membership::leave(int status, int blamed, const std::string& why) {
  stop();
  try {
    control_.ask([&](auto& client) { client.leave(status, blamed, why); });
  } catch (const Error&) {
  }
}

}  // namespace lockstep
