// Loaded before a program's own libraries: sends it SIGINT where it is about to block its signals,
// so that this comes at the last moment at which a handler can still get it.
#include <dlfcn.h>
#include <signal.h>
#include <sys/signalfd.h>

extern "C" int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  raise(SIGINT);
  return reinterpret_cast<decltype(&signalfd)>(dlsym(RTLD_NEXT, "signalfd"))(fd, mask, flags);
}
