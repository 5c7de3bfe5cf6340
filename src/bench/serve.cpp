#include "bench/serve.h"

#include <csignal>

#include "bench/pipes.h"

namespace lockstep::bench {

void serve(const std::string& pipe_folder, int rank,
           const std::function<std::unique_ptr<Participant>()>& join) {
  std::signal(SIGPIPE, SIG_IGN);  // a bench that has gone is an error from write(), not a death
  WorkerPipe pipe(pipe_folder, rank);
  try {
    const auto me = join();
    pipe.answer(to_line(Result{}));
    while (const auto line = pipe.next()) pipe.answer(to_line(measure(work_from(*line), *me)));
  } catch (const std::exception& e) {
    pipe.answer(failure_line(e.what()));
    throw;
  }
}

}  // namespace lockstep::bench
