// Raw connections, to knock on the coordinator's port as a stranger would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/host.h"
#include "eventually.h"

namespace lockstep {

class RawConnection {
 public:
  // To a port where nobody may be let in.
  struct NoWait {};
  static constexpr NoWait no_wait{};

  RawConnection(const Address& to, NoWait) : RawConnection(to, SOCK_NONBLOCK) {}
  explicit RawConnection(const Address& to, int flags = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(to.port));
    inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;

  bool connected() const { return connected_; }
  void say(const std::string& bytes) {
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Did the other end close the connection within so long?
  bool closed_within(double seconds) {
    const double deadline = wall_now() + seconds;
    char bytes[256];
    for (double left = seconds; left > 0; left = deadline - wall_now()) {
      pollfd waiting{fd_, POLLIN, 0};
      if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) > 0 &&
          recv(fd_, bytes, sizeof bytes, 0) <= 0)
        return true;
    }
    return false;
  }

 private:
  int fd_;
  bool connected_ = false;
};

// A server that says what it is told to.
class RawListener {
 public:
  explicit RawListener(std::string host = "127.0.0.1")
      : host_(std::move(host)), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host_.c_str(), &address.sin_addr);
    bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(fd_, 1);
  }
  ~RawListener() {
    close(fd_);
    close(peer_);
  }
  Address address() const {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    return {host_, ntohs(address.sin_port)};
  }
  void accept_one() { peer_ = accept(fd_, nullptr, nullptr); }
  int peer() const { return peer_; }
  // Waits for some bytes, then says `bytes`.
  void answer(const std::string& bytes) {
    char heard[4096];
    if (recv(peer_, heard, sizeof heard, 0) > 0)
      (void)!::send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

 private:
  std::string host_;
  int fd_;
  int peer_ = -1;
};

// Is one who comes from this address of the machine let in at a loopback port? Over loopback, who
// is has connected when connect() returns; a packet that is dropped leaves it waiting.
inline bool lets_in(const char* source, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in mine{}, theirs{}, peer{};
  mine.sin_family = theirs.sin_family = AF_INET;
  inet_pton(AF_INET, source, &mine.sin_addr);
  bind(fd, reinterpret_cast<sockaddr*>(&mine), sizeof mine);
  inet_pton(AF_INET, "127.0.0.1", &theirs.sin_addr);
  theirs.sin_port = htons(static_cast<std::uint16_t>(port));
  (void)!connect(fd, reinterpret_cast<sockaddr*>(&theirs), sizeof theirs);
  socklen_t length = sizeof peer;
  const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
  close(fd);
  return connected;
}

// The TCP ports of IPv4 that a process listens on.
inline std::vector<int> listening_ports(int pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  std::set<std::string> sockets;  // "socket:[123]"
  for (const auto& fd : std::filesystem::directory_iterator(proc + "/fd")) {
    std::error_code gone;
    sockets.insert(std::filesystem::read_symlink(fd, gone).string());
  }
  std::vector<int> ports;
  std::ifstream table(proc + "/net/tcp");
  std::string line, number, local, remote, state, inode;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    words >> number >> local >> remote >> state;
    for (int skipped = 0; skipped < 6; ++skipped) words >> inode;
    if (state == "0A" && sockets.count("socket:[" + inode + "]"))
      ports.push_back(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return ports;
}

}  // namespace lockstep
