#include "study/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace lockstep::study {

FolderLock::FolderLock(const std::string& folder)
    : fd_(open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0)
    throw UsageError(fmt::format("can't write to {}: {}; choose another folder with --out", folder,
                                 std::strerror(errno)));
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  close(fd_);
  throw UsageError(
      fmt::format("another study is at work in {}: wait for it, or choose another "
                  "folder with --out",
                  folder));
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace lockstep::study
