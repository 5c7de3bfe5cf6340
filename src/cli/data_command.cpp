// lockstep data fetch mnist, lockstep data make images
#include <poll.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/fetch.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/names.h"
#include "core/units.h"
#include "data/drawn_pictures.h"
#include "data/published.h"

namespace lockstep {
namespace {

// An ImageNet-layout folder of generated JPEGs.
struct ImagesToMake {
  int classes = 10, per_class = 100, val_per_class = 10;
  int width = 256, height = 256, quality = 90;
  std::uint64_t seed = 1;
};

using std::filesystem::path;

void write_whole(const path& file, const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  out.close();
  if (!out) throw InternalError(fmt::format("can't write {}", file.string()));
}

void stop_if_asked(int interrupt) {
  pollfd event{interrupt, POLLIN, 0};
  if (poll(&event, 1, 0) == 1) throw bench::Interrupted();
}

// Under another name first, then renamed: `folder` is whole or not there. Returns the bytes
// written. UsageError: it exists and is not empty; bench::Interrupted once `interrupt` (or -1) is
// readable.
std::uint64_t make_images(const path& folder, const ImagesToMake& wanted, int interrupt) {
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
        stop_if_asked(interrupt);
        const Picture picture = draw_picture(wanted.seed, label, static_cast<std::uint32_t>(i),
                                             wanted.width, wanted.height);
        const auto jpeg = encode_jpeg(picture, wanted.quality);
        write_whole(of_class / fmt::format("{:06}.jpg", i), jpeg);
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
  explicit DataCommand(CLI::App& application);
  int run() const override;

 private:
  int fetch() const;
  int make() const;

  std::string what_, to_;
  std::string classes_ = "10", per_class_ = "100", val_per_class_, size_ = "256x256";
  std::string quality_ = "90", seed_ = "1";
  bool json_ = false;
  CLI::App* fetch_;
  CLI::App* make_;
};

DataCommand::DataCommand(CLI::App& application)
    : Command(application.add_subcommand("data", "Get a data set, or make one")) {
  command_->require_subcommand(1);
  fetch_ = command_->add_subcommand("fetch", "Fetch a data set once, and check it");
  fetch_->add_option("what", what_, "mnist, cifar10 or fashion-mnist");
  fetch_->add_option("--to", to_, "Folder (its name in the cache folder, where --data NAME looks)");
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

int DataCommand::run() const { return fetch_->parsed() ? fetch() : make(); }

int DataCommand::fetch() const {
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

int DataCommand::make() const {
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
  const std::uint64_t bytes = make_images(to_, wanted, interrupt.descriptor());
  const int train = wanted.classes * wanted.per_class, val = wanted.classes * wanted.val_per_class;
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

}  // namespace

std::unique_ptr<Command> add_data(CLI::App& application) {
  return std::make_unique<DataCommand>(application);
}

}  // namespace lockstep
