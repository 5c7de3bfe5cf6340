#include "cluster/control_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "cluster/Control.h"
#include "cluster/address.h"
#include "cluster/handshake.h"
#include "cluster/protocol_constants.h"
#include "core/error.h"

namespace lockstep {

namespace thrift = apache::thrift;

namespace {

constexpr int kLongestFrame = 64 << 10;
constexpr int kConnectMs = 2'000;
constexpr auto kRetryPause = std::chrono::milliseconds(20);

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
auto ControlClient::ask(Call call) {
  try {
    return call(connection_->client);
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

void ControlClient::join(const protocol::Member& me) {
  ask([&](auto& client) { client.join(me); });
}

void ControlClient::offer(int memory_fd, const std::vector<std::string>& addresses) {
  ask([&](auto& client) { client.offer(memory_fd, addresses); });
}

void ControlClient::ready() {
  ask([&](auto& client) { client.ready(); });
}

protocol::Roster ControlClient::roster(int round, int first) {
  return ask([&](auto& client) {
    protocol::Roster roster;
    client.roster(roster, round, first);
    return roster;
  });
}

protocol::News ControlClient::heartbeat(int deaths, int departed) {
  return ask([&](auto& client) {
    protocol::News news;
    client.heartbeat(news, deaths, departed);
    return news;
  });
}

std::string ControlClient::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = "";
  getsockname(connection_->socket->getSocketFD(), reinterpret_cast<sockaddr*>(&address), &length);
  getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
              NI_NUMERICHOST);
  return text;
}

void ControlClient::leave(int status, int blamed, const std::string& why) {
  ask([&](auto& client) { client.leave(status, blamed, why); });
}

}  // namespace lockstep
