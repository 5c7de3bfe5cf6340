#include "cluster/coordinator.h"

#include <event2/event.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TNonblockingServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TNonblockingServerTransport.h>
#include <thrift/transport/TSocket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "cluster/control_handler.h"
#include "cluster/descriptors.h"
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

// Descriptors of this process that strangers leave alone: so many for each rank (its connection,
// its output, its process), and so many for all else.
constexpr int kDescriptorsARank = 6, kDescriptorsOfOurs = 32;
constexpr int kMostStrangers = 256, kFewestStrangers = 4;
constexpr int kBacklog = 1024;
// How many are let in at once, before those that are in get their turn.
constexpr int kAcceptedATurn = 16;
// A newcomer that finds all places taken by strangers takes the place of the oldest. So many are
// let in a tick then that everybody has at least this long to prove itself; the others are hung up
// on at once, so that no rank waits behind them. Those that begin as ranks do are counted apart:
// the silent and the noisy never take their turns.
constexpr int kLeastTicks = 4;
// How a rank's first frame goes on after its four bytes of length: a call of hello.
constexpr std::string_view kHello("\x80\x01\x00\x01\x00\x00\x00\x05hello", 13);

// How many strangers may be connected at once. UsageError if ranks and strangers don't fit into
// what this process may open.
int places_for_strangers(int ranks) {
  const int ours = kDescriptorsOfOurs + kDescriptorsARank * ranks;
  // One that is turned out holds its descriptor until the server has seen that.
  reserve_descriptors(fmt::format("the coordinator of {} ranks", ranks),
                      ours + 2 * kFewestStrangers);
  return std::clamp((free_descriptors() - ours) / 2, kFewestStrangers, kMostStrangers);
}

// Makes one handler a connection, and closes connections that don't prove themselves in time. All
// calls come from the server's thread.
class Handlers final : public protocol::ControlIfFactory {
 public:
  Handlers(Members& members, const std::string& key) : members_(members), key_(key) {}

  protocol::ControlIf* getHandler(const thrift::TConnectionInfo& info) override {
    auto* handler = new ControlHandler(members_, key_);
    open_[handler] = {std::dynamic_pointer_cast<TSocket>(info.transport), ++admitted_};
    return handler;
  }

  void releaseHandler(protocol::ControlIf* handler) override {
    open_.erase(static_cast<ControlHandler*>(handler));
    delete handler;
  }

  void tick() {
    for (auto& [handler, connection] : open_)
      if (!handler->trusted() && ++connection.ticks > kStrangerTicks) turn_out(connection);
  }

  // Those not yet shown the door.
  int strangers() const {
    return static_cast<int>(std::count_if(open_.begin(), open_.end(), is_stranger));
  }

  // False: there is none.
  bool turn_out_the_oldest_stranger() {
    Connection* oldest = nullptr;
    for (auto& entry : open_)
      if (is_stranger(entry) && (!oldest || entry.second.number < oldest->number))
        oldest = &entry.second;
    if (oldest) turn_out(*oldest);
    return oldest != nullptr;
  }

 private:
  struct Connection {
    std::shared_ptr<TSocket> socket;
    std::uint64_t number = 0;  // in the order they came
    int ticks = 0;
    bool turned_out = false;
  };

  static bool is_stranger(const std::pair<ControlHandler* const, Connection>& entry) {
    return !entry.first->trusted() && !entry.second.turned_out;
  }

  // Only shuts it down: the server then reads the end of the stream and closes it in good order.
  static void turn_out(Connection& connection) {
    connection.turned_out = true;
    ::shutdown(connection.socket->getSocketFD(), SHUT_RDWR);
  }

  Members& members_;
  const std::string& key_;
  std::map<ControlHandler*, Connection> open_;
  std::uint64_t admitted_ = 0;
};

// Where connections come in. Thrift's own socket throws when accept() fails, through libevent,
// which ends the process: whoever uses up our descriptors could do that. So the port is listened to
// here, and Thrift is told of what has been accepted already. All descriptors are close-on-exec: a
// worker that inherited one would keep the port or a connection open. All calls but the constructor
// come from the server's thread.
class Door final : public thrift::transport::TNonblockingServerTransport {
 public:
  // Listens. UsageError if it can't.
  explicit Door(const Address& address, int ranks)
      : places_(places_for_strangers(ranks)), listener_(listen_at(address)) {
    accepted_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (accepted_fd_ < 0) throw_errno("eventfd");
    keep_a_spare();
  }
  ~Door() override {
    if (event_) event_free(event_);
    for (const int fd : accepted_) ::close(fd);
    for (const int fd : {listener_, accepted_fd_, spare_})
      if (fd >= 0) ::close(fd);
  }

  // `handlers` outlive this.
  void open(event_base* base, Handlers& handlers) {
    handlers_ = &handlers;
    event_ = event_new(
        base, listener_, EV_READ | EV_PERSIST,
        [](int, short, void* self) { static_cast<Door*>(self)->let_in(); }, this);
    if (!event_) throw InternalError("libevent could not watch the coordinator's port");
    event_add(event_, nullptr);
  }

  void tick() {
    keep_a_spare();
    newcomers_ = greeters_ = 0;
    event_add(event_, nullptr);
  }

  void listen() override {}
  void close() override {}
  THRIFT_SOCKET getSocketFD() override { return accepted_fd_; }
  int getPort() override { return getListenPort(); }
  int getListenPort() override {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                               : reinterpret_cast<sockaddr_in&>(address).sin_port);
  }

 protected:
  // Called when accepted_fd_ can be read, so there is one.
  std::shared_ptr<TSocket> acceptImpl() override {
    eventfd_t one;
    eventfd_read(accepted_fd_, &one);
    const int fd = accepted_.front();
    accepted_.pop_front();
    return std::make_shared<TSocket>(fd);
  }

 private:
  static int listen_at(const Address& address) {
    const auto fail = [&](const char* why) {
      throw UsageError(fmt::format("cannot listen on {}: {}", address.text(), why));
    };
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    const std::string port = std::to_string(address.port);
    if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found))
      fail(gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, freeaddrinfo);
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) fail(std::strerror(errno));
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, kBacklog) != 0) {
      const int error = errno;
      ::close(fd);
      fail(std::strerror(error));
    }
    return fd;
  }

  void let_in() {
    for (int i = 0; i < kAcceptedATurn; ++i) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return out_of_descriptors();
      if (fd < 0) {
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) rest();
        return;
      }
      if (handlers_->strangers() + std::ssize(accepted_) >= places_ && !makes_room(fd)) {
        ::close(fd);
        continue;
      }
      const int yes = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      accepted_.push_back(fd);
      eventfd_write(accepted_fd_, 1);
    }
  }

  // False: too many came in this tick.
  bool makes_room(int newcomer) {
    int& count = begins_as_ranks_do(newcomer) ? greeters_ : newcomers_;
    if (count >= std::max(places_ / kLeastTicks, 1)) return false;
    ++count;
    handlers_->turn_out_the_oldest_stranger();
    return true;
  }

  static bool begins_as_ranks_do(int fd) {
    char said[4 + kHello.size()];
    return recv(fd, said, sizeof said, MSG_PEEK | MSG_DONTWAIT) == std::ssize(said) &&
           kHello == std::string_view(said + 4, kHello.size());
  }

  // Somebody else took what was kept for ranks. A stranger makes room if there is one; if not, the
  // newcomer is told that there is none: a rank would try again.
  void out_of_descriptors() {
    if (!handlers_->turn_out_the_oldest_stranger() && spare_ >= 0) {
      ::close(std::exchange(spare_, -1));
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) ::close(fd);
      keep_a_spare();
    }
    rest();
  }

  // Until the next tick.
  void rest() { event_del(event_); }

  void keep_a_spare() {
    if (spare_ < 0) spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }

  const int places_;
  const int listener_;
  int accepted_fd_ = -1;
  int spare_ = -1;
  std::deque<int> accepted_;  // which Thrift has yet to take
  Handlers* handlers_ = nullptr;
  event* event_ = nullptr;
  // Of this tick that found all places taken and got one.
  int newcomers_ = 0, greeters_ = 0;
};

}  // namespace

struct Coordinator::Server {
  explicit Server(const CoordinatorOptions& options)
      : members(options.size),
        key(options.key),
        host(options.listen.host),
        handlers(std::make_shared<Handlers>(members, key)),
        door(std::make_shared<Door>(options.listen, options.size)) {
    // What strangers send is no news: Thrift would print a line for each.
    thrift::GlobalOutput.setOutputFunction([](const char*) {});
    auto protocols = std::make_shared<
        thrift::protocol::TBinaryProtocolFactoryT<thrift::transport::TMemoryBuffer>>(
        kLongestString, kLongestList, true, true);
    server = std::make_unique<thrift::server::TNonblockingServer>(
        std::make_shared<protocol::ControlProcessorFactory>(handlers), protocols, door);
    server->setMaxFrameSize(kLongestFrame);
    base = event_base_new();
    if (!base) throw InternalError("libevent could not start");
    server->registerEvents(base);
    door->open(base, *handlers);
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
    door.reset();
    event_base_free(base);
  }

  void tick() {
    handlers->tick();
    door->tick();
    members.tick();
  }

  Members members;
  std::string key;
  std::string host;
  std::shared_ptr<Handlers> handlers;
  std::shared_ptr<Door> door;
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

Address Coordinator::address() const { return {server_->host, server_->door->getListenPort()}; }

Members& Coordinator::members() const { return server_->members; }

}  // namespace lockstep
