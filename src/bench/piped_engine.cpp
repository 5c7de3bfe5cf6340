#include "bench/piped_engine.h"

#include <algorithm>
#include <csignal>

#include "bench/pipes.h"

namespace lockstep::bench {
namespace {
constexpr double kJoinSeconds = 60;
constexpr double kAnswerSeconds = 600;
}  // namespace

PipedEngine::PipedEngine(std::string name, int workers, const std::string& temporary, int interrupt,
                         const Start& start)
    : name_(std::move(name)), folder_(temporary), pipes_(folder_.path(), workers, interrupt) {
  crew_ = start(folder_.path());
  hear(kJoinSeconds);
  folder_.remove();
}

Result PipedEngine::measure(const Work& work) {
  pipes_.tell_all(to_line(work));
  return hear(kAnswerSeconds);
}

Result PipedEngine::hear(double patience_seconds) try {
  std::vector<Result> results;
  pipes_.answers().one_from_each(patience_seconds, [&](int, const std::string& line) {
    results.push_back(result_from(line));
  });
  return join(results);
} catch (const InternalError& e) {
  const auto [sentence, status] = crew_->verdict();
  if (pipes_.answers().interrupted()) throw Interrupted();
  throw CrewFailed(
      fmt::format("engine {}: {}{}{}", name_, e.what(), sentence.empty() ? "" : "; ", sentence),
      std::max(status, 1));
}

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
