#include "cluster/coordinator.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TNonblockingServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TNonblockingServerSocket.h>
#include <thrift/transport/TSocket.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "cluster/control_handler.h"
#include "core/error.h"

namespace lockstep {

namespace thrift = apache::thrift;
using apache::thrift::transport::TSocket;

namespace {

constexpr int kLongestFrame = 64 << 10;
constexpr int kLongestString = 16 << 10;
constexpr int kLongestList = 1024;
constexpr int kStrangerTicks =
    static_cast<int>(Coordinator::kStrangerSeconds / Members::kTickSeconds);

// Makes one handler a connection, and closes connections that don't prove themselves in time. All
// calls come from the server's thread.
class Handlers final : public protocol::ControlIfFactory {
 public:
  Handlers(Members& members, TaskBook& tasks, const std::string& key)
      : members_(members), tasks_(tasks), key_(key) {}

  protocol::ControlIf* getHandler(const thrift::TConnectionInfo& info) override {
    auto* handler = new ControlHandler(members_, tasks_, key_);
    open_[handler] = {std::dynamic_pointer_cast<TSocket>(info.transport), 0};
    return handler;
  }

  void releaseHandler(protocol::ControlIf* handler) override {
    open_.erase(static_cast<ControlHandler*>(handler));
    delete handler;
  }

  void tick() {
    for (auto& [handler, connection] : open_)
      // Only shut down: the server then reads the end of the stream and closes it in good order.
      if (!handler->trusted() && ++connection.ticks > kStrangerTicks)
        ::shutdown(connection.socket->getSocketFD(), SHUT_RDWR);
  }

 private:
  struct Connection {
    std::shared_ptr<TSocket> socket;
    int ticks = 0;
  };
  Members& members_;
  TaskBook& tasks_;
  const std::string& key_;
  std::map<ControlHandler*, Connection> open_;
};

}  // namespace

struct Coordinator::Server {
  explicit Server(const CoordinatorOptions& options)
      : members(options.size),
        tasks(options.size),
        key(options.key),
        host(options.listen.host),
        handlers(std::make_shared<Handlers>(members, tasks, key)),
        socket(std::make_shared<thrift::transport::TNonblockingServerSocket>(options.listen.host,
                                                                             options.listen.port)) {
    members.on_gone([this](int rank) { tasks.bury(rank); });
    // What strangers send is no news: Thrift would print a line for each.
    thrift::GlobalOutput.setOutputFunction([](const char*) {});
    auto protocols = std::make_shared<
        thrift::protocol::TBinaryProtocolFactoryT<thrift::transport::TMemoryBuffer>>(
        kLongestString, kLongestList, true, true);
    server = std::make_unique<thrift::server::TNonblockingServer>(
        std::make_shared<protocol::ControlProcessorFactory>(handlers), protocols, socket);
    server->setMaxFrameSize(kLongestFrame);
    base = event_base_new();
    if (!base) throw InternalError("libevent could not start");
    try {
      server->registerEvents(base);
    } catch (const thrift::TException& error) {
      event_base_free(base);
      throw UsageError(fmt::format("cannot listen on {}: {}", options.listen.text(), error.what()));
    }
    timer = event_new(
        base, -1, EV_PERSIST, [](int, short, void* self) { static_cast<Server*>(self)->tick(); },
        this);
    const timeval period{0, static_cast<int>(Members::kTickSeconds * 1e6)};
    event_add(timer, &period);
    // Not TNonblockingServer::stop(): that is forgotten if the loop has not started yet.
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0) throw_errno("eventfd");
    stop = event_new(
        base, stop_fd, EV_READ,
        [](int, short, void* self) { event_base_loopbreak(static_cast<Server*>(self)->base); },
        this);
    event_add(stop, nullptr);
    thread = std::thread([this] { server->serve(); });
  }

  ~Server() {
    eventfd_write(stop_fd, 1);
    thread.join();
    event_free(stop);
    event_free(timer);
    close(stop_fd);
    server.reset();  // closes the connections, which tell `members`
    event_base_free(base);
  }

  void tick() {
    handlers->tick();
    members.tick();
  }

  Members members;
  TaskBook tasks;
  std::string key;
  std::string host;
  std::shared_ptr<Handlers> handlers;
  std::shared_ptr<thrift::transport::TNonblockingServerSocket> socket;
  std::unique_ptr<thrift::server::TNonblockingServer> server;
  event_base* base = nullptr;
  event* timer = nullptr;
  event* stop = nullptr;
  int stop_fd = -1;
  std::thread thread;
};

Coordinator::Coordinator(const CoordinatorOptions& options)
    : server_(std::make_unique<Server>(options)) {}

Coordinator::~Coordinator() = default;

Address Coordinator::address() const { return {server_->host, server_->socket->getListenPort()}; }

Members& Coordinator::members() const { return server_->members; }

}  // namespace lockstep
