#include "cli/bench_command.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/report.h"
#include "cli/bench_engines.h"
#include "cli/interrupt.h"

namespace lockstep {
namespace {

constexpr const char* kExamples = R"(
Sizes: K, M, G and KiB, MiB, GiB are powers of 1024; KB, MB, GB are powers of 1000. The largest size
is always measured. Every result is verified: #wrong counts bad elements. Engines take turns in each
repeat, so the ratio between two of them holds on a busy machine.

Examples:
  lockstep bench allreduce -n 4 -b 4K -e 100M -f 10
  lockstep bench allreduce -n 2 -b 100M -e 100M --against openmpi,gloo
  lockstep bench allreduce -n 8 --collectives all --transport loopback --json
  lockstep bench allreduce -n 64 --cluster sim:bandwidth=10Gbps,latency=50us
  lockstep bench allreduce --cluster netns:hosts=2,bandwidth=1Gbps --against gloo
  lockstep bench p2p --transport shm -b 8 -e 16M -f 4
  mpirun -n 4 lockstep bench allreduce --key-file job.key
  RANK=1 WORLD_SIZE=2 lockstep bench allreduce --join 10.0.0.1:29500 --key-file job.key
)";

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

}  // namespace

BenchCommand::BenchCommand(CLI::App& application) {
  CLI::App* bench =
      application.add_subcommand("bench", "Micro-benchmarks, side by side with other engines");
  bench->require_subcommand(1);
  all_reduce_ = add(*bench, "allreduce", "Time all-reduce, by collective and size");
  all_reduce_
      ->add_option("--collectives", flags_.collectives,
                   "Names from `lockstep list collectives`, separated by commas, or all")
      ->capture_default_str();
  p2p_ = add(*bench, "p2p", "Time messages between ranks 0 and 1: latency and one-way stream");
}

CLI::App* BenchCommand::add(CLI::App& bench, const std::string& name,
                            const std::string& description) {
  CLI::App* command = bench.add_subcommand(name, description);
  const auto option = [&](const char* flag, std::string& value, const char* text) {
    command->add_option(flag, value, text)->capture_default_str();
  };
  command->add_option("-n,--workers", flags_.ranks,
                      "Ranks (also -np); 2 unless the cluster says more");
  option("-b", flags_.first, "Smallest size in bytes");
  option("-e", flags_.last, "Largest size in bytes");
  option("-f", flags_.factor, "Each size is so many times the one before");
  command->add_option("-w", flags_.warmup, "Iterations before the timed ones (5; simulated 0)");
  command->add_option("-i", flags_.iterations, "Timed iterations (20; simulated 1)");
  command->add_option("--repeats", flags_.repeats,
                      "Turns of each engine at each size (5; simulated 1)");
  option("--type", flags_.type, "fp32, fp64, fp16, bf16, int32 or int64");
  option("--transport", flags_.transport,
         "auto, shm, ucx, loopback (threads) or simulated (virtual time)");
  option("--cluster", flags_.cluster, "local, sim:key=value,... or netns:key=value,...");
  command->add_option("--against", flags_.against, "Other engines to compare with: gloo, openmpi");
  const std::string many = "Many hosts";
  command->add_option("--listen", flags_.hosts.listen, "ADDR[:PORT] where the job is joined")
      ->group(many);
  command->add_option("--join", flags_.hosts.join, "ADDR:PORT where rank 0 listens")->group(many);
  command->add_option("--key-file", flags_.hosts.key_file, "The job key: 32 bytes, mode 0600")
      ->group(many);
  command->add_option("--iface", flags_.hosts.iface, "Interface between hosts: a name or a CIDR")
      ->group(many);
  command->add_flag("--json", flags_.json, "JSON lines on stdout, everything else on stderr");
  command->footer(kExamples);
  return command;
}

BenchPlan BenchCommand::plan() const {
  return plan_from(flags_, p2p_->parsed() ? bench::Operation::p2p : bench::Operation::allreduce);
}

int BenchCommand::run() const {
  const BenchPlan plan = this->plan();
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

}  // namespace lockstep
