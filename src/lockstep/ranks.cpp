#include "lockstep/ranks.h"

#include <cstdlib>
#include <filesystem>

#include "cluster/launch.h"
#include "replica/malloc.h"

namespace lockstep {
namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

int launch(int argc, char** argv, int ranks, bool goes_on) {
  LaunchOptions options;
  options.workers = ranks;
  options.goes_on = goes_on;
  options.command = {""};
  options.command.insert(options.command.end(), argv + std::min(argc, 1), argv + argc);
  return Launch(options).wait();
}

void run_as(const Start& start, const Body& body, const JobOptions& options) {
  keep_freed_memory();
  Job job(start, options);
  try {
    body(job.rank());
    job.leave();
  } catch (const std::exception& e) {
    job.fail(e);
    throw;
  }
}

}  // namespace

int run_ranks(int argc, char** argv, int ranks, const Body& body, const JobOptions& options) {
  const auto fail = [&](const std::exception& e, int status) {
    const std::filesystem::path program = argc > 0 ? argv[0] : "lockstep";
    fmt::print(stderr, "{}: {}\n", program.filename().string(), e.what());
    return status;
  };
  try {
    const auto start = start_from(variable);
    if (!start) return launch(argc, argv, ranks, options.goes_on);
    run_as(*start, body, options);
    return 0;
  } catch (const UsageError& e) {
    return fail(e, 2);
  } catch (const std::exception& e) {
    return fail(e, 1);
  }
}

}  // namespace lockstep
