// One study at a time in a folder: two would remove each other's runs.
#pragma once

#include <string>

namespace lockstep::study {

class FolderLock {
 public:
  // Held until the end of this object or of the process. UsageError if another process holds it or
  // the folder can't be written to.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace lockstep::study
