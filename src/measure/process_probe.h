// What this process has used of the machine so far, all threads together. Cheap enough to ask ten
// times a second: two small files and one system call. Belongs to one thread.
#pragma once

#include <cstdint>

#include "measure/proc_file.h"

namespace lockstep {

struct ProcessFigures {
  double user_s = 0, system_s = 0;
  // Resident now. Private: anonymous memory (heap, stacks). Shared: what others may map too, that
  // is windows, also a rank's own (RssShmem), and files, programs among them (RssFile).
  std::uint64_t private_bytes = 0, shared_bytes = 0;
  std::uint64_t threads = 0;
  std::uint64_t switches_voluntary = 0, switches_involuntary = 0;
  // That went to and came from a device: 0 on tmpfs, and what the page cache answers is not read.
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};

class ProcessProbe {
 public:
  ProcessFigures read();

 private:
  ProcFile status_{"/proc/self/status"}, io_{"/proc/self/io"};
};

}  // namespace lockstep
