// lockstep bench allreduce|p2p|pushpull
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "bench/engine.h"
#include "bench/report.h"
#include "cli/bench_engines.h"
#include "cli/bench_participant.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cluster/job.h"
#include "measure/machine.h"

namespace lockstep {
namespace {

// One line on a terminal that says what is being measured.
class ProgressLine {
 public:
  explicit ProgressLine(int repeats) : repeats_(repeats), shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }
  void show(const bench::Contender& contender, int repeat, std::size_t bytes) const {
    if (!shown_) return;
    fmt::print(stderr, "\r\033[K# {}, {} of {}: {} {}", bench::size_in_words(bytes), repeat + 1,
               repeats_, contender.engine->name(), contender.collective);
    std::fflush(stderr);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  const int repeats_;
  const bool shown_;
};

std::vector<std::vector<bench::Measured>> measure_all(const BenchPlan& plan,
                                                      const Engines& engines) {
  // With --json the table is for the eye only. Of ranks that another launcher started, one speaks.
  const bool speaks = !plan.start || plan.start->rank == 0;
  std::FILE* table = plan.json ? stderr : stdout;
  if (speaks) fmt::print(table, "{}\n", bench::table_head(plan.work, plan.ranks, plan.repeats));
  std::vector<std::vector<bench::Measured>> by_size;
  const ProgressLine progress(plan.repeats);
  for (const std::size_t bytes : plan.sizes) {
    bench::Work work = plan.work;
    work.bytes = bytes;
    by_size.push_back(bench::compare(engines.contenders, work, plan.repeats,
                                     [&](const bench::Contender& contender, int repeat) {
                                       progress.show(contender, repeat, bytes);
                                     }));
    progress.clear();
    if (!speaks) continue;
    for (const bench::Measured& row : by_size.back()) {
      fmt::print(table, "{}\n", bench::table_row(row, plan.ranks));
      if (plan.json) fmt::print("{}\n", bench::json_line(row, plan.ranks));
    }
    std::fflush(nullptr);
  }
  return by_size;
}

void print_ratios(const BenchPlan& plan, const std::vector<bench::Measured>& rows) {
  for (const bench::Measured& ours : rows) {
    for (const bench::Measured& theirs : rows) {
      if (!ours.by.ours || theirs.by.ours) continue;
      fmt::print(plan.json ? stderr : stdout, "# {}\n",
                 bench::ratio_sentence(ours, theirs, plan.ranks));
      if (plan.json) fmt::print("{}\n", bench::ratio_json_line(ours, theirs, plan.ranks));
    }
  }
}

std::uint64_t wrong_in(const std::vector<bench::Measured>& rows) {
  std::uint64_t wrong = 0;
  for (const bench::Measured& row : rows) wrong += row.wrong.value_or(0);
  return wrong;
}

class BenchCommand : public Command {
 public:
  explicit BenchCommand(CLI::App& application)
      : Command(application.add_subcommand("bench",
                                           "Micro-benchmarks, side by side with other engines")),
        flags_(*command_) {}
  // 1 if an element was wrong.
  int run() const override {
    const BenchPlan plan = flags_.plan();
    const char* temporary = std::getenv("TMPDIR");
    const Interrupt interrupt;
    const Engines engines =
        start_engines(plan, interrupt.descriptor(), temporary && *temporary ? temporary : "/tmp");
    std::uint64_t wrong = 0;
    const auto by_size = measure_all(plan, engines);
    for (const auto& rows : by_size) {
      print_ratios(plan, rows);
      wrong += wrong_in(rows);
    }
    if (wrong > 0)
      throw InternalError(fmt::format("{} elements were wrong: see #wrong above", wrong));
    return 0;
  }

 private:
  BenchFlags flags_;
};

// lockstep bench-worker --pipes FOLDER: one rank of our own engine. Started by `bench`, not by
// people.
class WorkerCommand : public Command {
 public:
  explicit WorkerCommand(CLI::App& application)
      : Command(application.add_subcommand("bench-worker", "One rank of `lockstep bench`")) {
    command_->add_option("--pipes", pipes_)->required();
    command_->group("");  // not in --help
  }

  int run() const override {
    const auto start = start_from(environment_with({}));
    if (!start) throw UsageError("bench-worker is started by lockstep bench, not by hand");
    bind_to_core(start->rank, start->size);
    std::optional<Job> job;
    try {
      bench::serve(pipes_, start->rank, [&] {
        job.emplace(*start);
        return std::make_unique<bench::OurParticipant>(job->rank(),
                                                       bench::OurParticipant::World::real);
      });
    } catch (const std::exception& e) {
      if (job) job->fail(e);
      throw;
    }
    job->leave();
    return 0;
  }

 private:
  std::string pipes_;
};

}  // namespace

std::unique_ptr<Command> add_bench(CLI::App& application) {
  return std::make_unique<BenchCommand>(application);
}

std::unique_ptr<Command> add_bench_worker(CLI::App& application) {
  return std::make_unique<WorkerCommand>(application);
}

}  // namespace lockstep
