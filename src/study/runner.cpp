#include "study/runner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "study/plan.h"
#include "study/run_record.h"
#include "train/run_folder.h"

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

namespace {

namespace fs = std::filesystem;

std::string made(std::string folder) {
  std::error_code error;
  fs::create_directories(folder + "/runs", error);
  if (error)
    throw UsageError(fmt::format("can't make the folder {}: {}; choose another with --out", folder,
                                 error.message()));
  return folder;
}

// Makes it or empties it. UsageError while a process writes a run there: a study that was killed
// may leave one behind.
void make_empty(const std::string& folder) {
  const RunOwner ours(folder);
  fs::remove_all(folder);
  fs::create_directories(folder);
}

// What a run shows about computing a step.
struct Pace {
  double step_s = 0;     // a worker's mean; 0: unknown
  double deviation = 0;  // of the workers within a step, relative
};

Pace pace_of(const std::string& folder) {
  const RunRecord record = read_run(folder);
  if (!record.done()) return {};
  double seconds = 0;
  int workers = 0;
  for (const auto& rank : list_at(record.result, "workers_detail")) {
    if (rank.value("role", "") != "worker") continue;
    const auto computed = number_at(rank, "compute_seconds");
    seconds += computed.is_null() ? 0 : computed.get<double>();
    ++workers;
  }
  const auto taken = number_at(record.result, "steps");
  const double steps = taken.is_null() ? 0 : taken.get<double>();
  if (workers == 0 || steps <= 0 || seconds <= 0) return {};
  const double step_s = seconds / workers / steps;
  const auto deviation = number_at(record.result, "compute_deviation_seconds");
  return {step_s, deviation.is_null() ? 0 : deviation.get<double>() / step_s};
}

}  // namespace

Before runs_before(const std::string& folder) try {
  Before before;
  const std::string path = study_file_in(folder);
  if (!fs::exists(path)) return before;
  for (Run& run : study_from(json_in(read_whole(path)), path).runs) before[run.id] = run;
  return before;
} catch (const std::exception&) {
  return {};  // damaged, or of another version: the runs' own folders tell what is done
}

void take_over(Study& study, const std::string& folder, const Before& before) {
  for (Run& run : study.runs) {
    if (run.status != "waiting" || !read_run(folder_of(folder, run)).done()) continue;
    run.status = "done";
    if (const auto old = before.find(run.id); old != before.end()) {
      run.seconds = old->second.seconds;
      run.flags = old->second.flags;  // with the step's time that was put in
    }
  }
}

Runner::Runner(Study& study, std::string folder, World world, RunWatcher& watcher)
    : study_(study),
      folder_(made(std::move(folder))),
      world_(std::move(world)),
      watcher_(watcher),
      lock_(folder_),
      before_(runs_before(folder_)),
      started_(world_.now()) {
  take_over();
  write();
}

void Runner::take_over() { study::take_over(study_, folder_, before_); }

bool Runner::run_until(int turn) {
  for (Run& run : study_.runs) {
    if (run.turn > turn || run.status != "waiting" || out_of_time_) continue;
    if (world_.interrupted()) return false;
    const std::size_t k = study_.runs.size() - study_.count("waiting") + 1;
    const Ending::Kind end = carry_out(run, k);
    write();
    if (end == Ending::Kind::interrupted) return false;
    out_of_time_ = end == Ending::Kind::out_of_time;
    if (!out_of_time_ || run.status != "waiting") watcher_.ended(run, k, study_.runs.size());
  }
  return true;
}

Ending::Kind Runner::carry_out(Run& run, std::size_t k) {
  const std::string folder = folder_of(folder_, run);
  const double budget_s = 60 * study_.minutes, used_s = world_.now() - started_;
  if (budget_s > 0 && used_s + expected_s(run) > budget_s) return Ending::Kind::out_of_time;
  try {
    make_empty(folder);
  } catch (const UsageError& e) {
    run.status = "failed";
    run.reason = e.what();
    return Ending::Kind::finished;
  }
  if (!run.timed_by.empty()) {
    const Pace pace = pace_of(folder_of(folder_, study_.run(run.timed_by)));
    if (pace.step_s <= 0) {
      run.status = "failed";
      run.reason = fmt::format("the run {} that shows its step's time is not done", run.timed_by);
      return Ending::Kind::finished;
    }
    set_pace(run.flags, fmt::format("step={:.3f}ms", pace.step_s * 1e3),
             fmt::format("jitter={:.4f}", std::min(pace.deviation, 0.99)));
  }
  watcher_.starts(run, k, study_.runs.size(), left_s());
  const double start = world_.now();
  const Ending ending =
      world_.execute({&run, words_of(study_, run), folder, budget_s > 0 ? budget_s - used_s : 0});
  run.seconds = world_.now() - start;
  settle(run, folder, ending);
  return ending.kind;
}

void Runner::settle(Run& run, const std::string& folder, const Ending& ending) const {
  if (ending.kind != Ending::Kind::finished) {
    run.status = "stopped";
    run.reason = ending.kind == Ending::Kind::interrupted
                     ? "stopped by a signal"
                     : fmt::format("the study's {} minutes were over", study_.minutes);
    return;
  }
  const bool well = ending.status == 0;
  const std::string reason = well || !ending.reason.empty()
                                 ? ending.reason
                                 : fmt::format("ended with status {}", ending.status);
  if (!fs::exists(folder + "/run.json"))
    write_run(folder, well ? "done" : "failed", reason, texts_of(run.flags), json_lines(ending.out),
              study_.commit);
  const RunRecord record = read_run(folder);
  run.status = well && record.done() ? "done" : "failed";
  run.reason = run.status == "done" ? "" : record.reason.empty() ? reason : record.reason;
  if (run.status == "failed") write_whole(folder + "/stderr.txt", ending.err);
}

void Runner::finish() {
  for (Run& run : study_.runs)
    if (run.status == "waiting") {
      run.status = "not run";
      run.reason = out_of_time_ ? fmt::format("the study's {} minutes were over", study_.minutes)
                                : "the study was stopped before";
    }
  write();
}

void Runner::write() const {
  write_whole(study_file_in(folder_), json_text(to_json(study_), 1) + "\n");
}

// As long as the same variant took, or else as the mean of all measured or simulated ones.
double Runner::expected_s(const Run& run) const {
  const auto mean = [&](const auto& counts) {
    double sum = 0, n = 0;
    for (const Run& other : study_.runs)
      if (other.seconds > 0 && counts(other)) sum += other.seconds, ++n;
    return n > 0 ? sum / n : 0;
  };
  const double same = mean([&](const Run& other) { return other.variant == run.variant; });
  if (same > 0) return same;
  return mean([&](const Run& other) { return other.timed_by.empty() == run.timed_by.empty(); });
}

double Runner::left_s() const {
  double left = 0;
  for (const Run& run : study_.runs)
    if (run.status == "waiting") left += expected_s(run);
  return left;
}

}  // namespace lockstep::study
