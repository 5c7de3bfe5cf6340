#include "study/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.h"
#include "core/ordinary_file.h"

namespace lockstep::study {

FolderLock::FolderLock(const std::string& folder) {
  const OpenedFile lock = open_to_write(folder + "/.lock", O_RDWR | O_CREAT);
  fd_ = lock.descriptor;
  if (fd_ < 0)
    throw UsageError(fmt::format("can't write {}/.lock: {}; choose another folder with --out",
                                 folder, lock.why_not));
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  close(fd_);
  throw UsageError(
      fmt::format("another study is at work in {}: wait for it, or choose another "
                  "folder with --out",
                  folder));
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace lockstep::study
