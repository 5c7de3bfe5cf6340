#include "cluster/thread_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace lockstep {

std::string choose_threads(int asked, int workers, Variables& variables) {
  if (asked == 0 && environment_has("OMP_NUM_THREADS"))
    return "threads each as OMP_NUM_THREADS says";
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = asked > 0 ? asked : std::max(1, cores / workers);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    if (asked > 0 || !environment_has(name)) variables.emplace_back(name, std::to_string(threads));
  return fmt::format("{} thread{} each", threads, threads == 1 ? "" : "s");
}

}  // namespace lockstep
