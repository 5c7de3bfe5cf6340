#include "transport/ucx/worker.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <ucs/config/global_opts.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw InternalError(fmt::format("{}: {}", what, ucs_status_string(status)));
}

void check_interface(const std::string& interface) {
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(),
                                                                              if_freenameindex);
  if (!all) throw_errno("if_nameindex");
  std::string names;
  for (const auto* i = all.get(); i->if_name; ++i) {
    if (interface == i->if_name) return;
    names += (names.empty() ? "" : ", ") + std::string(i->if_name);
  }
  throw UsageError(
      fmt::format("there is no network interface '{}' here: choose from {}", interface, names));
}

// UCX writes to stderr whenever a peer is gone, which we say ourselves. Who asked for its log in
// another way than it does by default gets it.
void hush() {
  char level[32] = "";
  ucs_global_opts_get_value("LOG_LEVEL", level, sizeof level);
  if (std::string_view(level) == "WARN") ucs_global_opts_set_value("LOG_LEVEL", "FATAL");
}

ucp_context_h open_context(const std::string& interface) {
  ucp_config_t* read = nullptr;
  check(ucp_config_read(nullptr, nullptr, &read), "ucp_config_read");
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> config(read,
                                                                            ucp_config_release);
  // Segments larger than UCX's own 8k and 64k: fewer system calls, a third less CPU a byte.
  // Connecting without blocking: else UCX 1.13 aborts (tcp_ep.c:478) when a peer closes just then.
  // No sends straight from the caller's memory: if the peer dies while one is half written, and a
  // write finds that before a read does, UCX 1.13 completes it twice and aborts
  // (<uct_iface.h>, line 884).
  const std::pair<const char*, const char*> settings[] = {
      {"TLS", "tcp"},          {"NET_DEVICES", interface.c_str()},
      {"TX_SEG_SIZE", "256k"}, {"RX_SEG_SIZE", "512k"},
      {"CONN_NB", "y"},        {"ZCOPY_THRESH", "inf"},
  };
  for (const auto& [name, value] : settings)
    check(ucp_config_modify(config.get(), name, value), name);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  check(ucp_init(&params, config.get(), &context), "ucp_init");
  return context;
}

// The IPv4 sockets of this process that wait for connections. UCX does not tell its own.
std::vector<int> listening_sockets() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0, family = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens) continue;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_INET)
      found.push_back(fd);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Passes packets whose source (12 bytes into the IPv4 header) is one of these, drops all others.
std::vector<sock_filter> sources_filter(const std::vector<std::string>& addresses) {
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS, kIsEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
  std::vector<sock_filter> code = {{kLoad, 0, 0, static_cast<std::uint32_t>(SKF_NET_OFF + 12)}};
  for (const std::string& text : addresses) {
    in_addr address{};
    if (inet_pton(AF_INET, text.c_str(), &address) != 1) continue;
    code.push_back({kIsEqual, 0, 1, ntohl(address.s_addr)});
    code.push_back({kReturn, 0, 0, 0xffffffff});
  }
  code.push_back({kReturn, 0, 0, 0});
  return code;
}

}  // namespace

UcxWorker::UcxWorker(const std::string& interface) {
  check_interface(interface);
  hush();
  const std::vector<int> before = listening_sockets();
  context_ = open_context(interface);
  try {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // opened by one thread, used by another
    check(ucp_worker_create(context_, &params, &worker_),
          fmt::format("UCX can't use the interface {}", interface).c_str());
    const std::vector<int> after = listening_sockets();
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                        std::back_inserter(listeners_));
    check(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    address_.assign(reinterpret_cast<const char*>(address), length);
    ucp_worker_release_address(worker_, address);
  } catch (...) {
    if (worker_) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

UcxWorker::~UcxWorker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

void UcxWorker::admit_only(const std::vector<std::string>& addresses) {
  std::vector<sock_filter> code = sources_filter(addresses);
  if (code.size() > BPF_MAXINSNS) return admit_all();  // more hosts than a filter can tell apart
  const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
  for (const int fd : listeners_)
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
      throw_errno("SO_ATTACH_FILTER");
}

void UcxWorker::admit_all() {
  const int unused = 0;
  for (const int fd : listeners_)
    if (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) != 0 &&
        errno != ENOENT)  // there was none
      throw_errno("SO_DETACH_FILTER");
}

void UcxWorker::sleep(int also, double seconds) {
  const ucs_status_t armed = ucp_worker_arm(worker_);
  if (armed == UCS_ERR_BUSY) return;  // something came in the meantime
  check(armed, "ucp_worker_arm");
  seconds = std::clamp(seconds, 0.0, 3600.0);
  timespec time;
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  pollfd fds[2] = {{event_fd_, POLLIN, 0}, {also, POLLIN, 0}};
  ppoll(fds, also < 0 ? 1 : 2, &time, nullptr);
}

}  // namespace lockstep
