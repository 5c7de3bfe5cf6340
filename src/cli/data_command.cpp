#include "cli/data_command.h"

#include "cli/environment.h"
#include "cli/fetch.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/make_images.h"
#include "core/error.h"
#include "core/names.h"
#include "core/units.h"
#include "data/published.h"
#include "train/json_text.h"

namespace lockstep {
namespace {

void expect_name(std::string_view what, const std::string& name, std::string_view only) {
  if (name.empty()) throw UsageError(fmt::format("which {}? {}", what, only));
  if (name != only) throw_unknown(what, name, std::span(&only, 1));
}

}  // namespace

DataCommand::DataCommand(CLI::App& application) {
  CLI::App* data = application.add_subcommand("data", "Get a data set, or make one");
  data->require_subcommand(1);
  fetch_ = data->add_subcommand("fetch", "Fetch a data set once, and check it");
  fetch_->add_option("what", what_, "mnist, cifar10 or fashion-mnist");
  fetch_->add_option("--to", to_, "Folder (its name in the cache folder, where --data NAME looks)");
  fetch_->footer(
      "\nExamples:\n  lockstep data fetch mnist\n  lockstep data fetch cifar10 --to cifar10\n"
      "  lockstep train --model resnet20 --data cifar10");
  make_ = data->add_subcommand("make", "Make an ImageNet-layout folder of generated JPEGs");
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
  expect_name("data set to make", what_, "images");
  if (to_.empty()) throw UsageError("where to? give --to DIR, a folder that does not exist yet");
  const std::size_t cross = size_.find('x');
  if (cross == std::string::npos)
    throw UsageError(fmt::format("--size is WIDTHxHEIGHT, such as 256x256, not '{}'", size_));
  ImagesToMake wanted;
  wanted.width = count_from("--size", size_.substr(0, cross), 1, 8192);
  wanted.height = count_from("--size", size_.substr(cross + 1), 1, 8192);
  wanted.classes = count_from("--classes", classes_, 1, 100000);
  wanted.per_class = count_from("--per-class", per_class_, 1, 1000000);
  wanted.val_per_class = val_per_class_.empty()
                             ? (wanted.per_class + 9) / 10
                             : count_from("--val-per-class", val_per_class_, 1, 1000000);
  wanted.quality = count_from("--quality", quality_, 1, 100);
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

}  // namespace lockstep
