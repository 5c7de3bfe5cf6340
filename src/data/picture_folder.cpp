#include "data/picture_folder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"

namespace lockstep {
namespace {

using std::filesystem::directory_entry;
using std::filesystem::directory_iterator;
using std::filesystem::path;

using ByClass = std::map<std::string, std::vector<path>>;  // sorted

// False too where that can't be told, as of a link to nowhere.
bool is_folder(const directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

// A name alone does not make a picture: a folder can be called so, or a FIFO, which would wait.
bool is_jpeg(const directory_entry& file) {
  std::error_code ignored;
  if (!file.is_regular_file(ignored)) return false;
  std::string ending = file.path().extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg";
}

ByClass list_classes(const path& folder, std::size_t& others) {
  ByClass found;
  for (const auto& entry : directory_iterator(folder)) {
    if (!is_folder(entry)) continue;
    std::vector<path> files;
    for (const auto& file : directory_iterator(entry.path()))
      if (is_jpeg(file))
        files.push_back(file.path());
      else
        ++others;
    std::ranges::sort(files);
    if (!files.empty()) found[entry.path().filename().string()] = std::move(files);
  }
  if (found.empty())
    throw UsageError(
        fmt::format("{} holds no pictures: CLASS/NAME.jpg is the layout", folder.string()));
  return found;
}

// In turns; see PictureFiles.
PictureFiles in_turns(const ByClass& by_class, const std::vector<std::string>& classes) {
  PictureFiles all;
  for (std::size_t turn = 0, before = ~std::size_t{0}; before != all.files.size(); ++turn) {
    before = all.files.size();
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const auto found = by_class.find(classes[c]);
      if (found == by_class.end() || turn >= found->second.size()) continue;
      all.files.push_back(found->second[turn]);
      all.labels.push_back(static_cast<int>(c));
    }
  }
  return all;
}

// The last ones of each class; at least one, and never all.
ByClass hold_out(ByClass& train, double share) {
  ByClass test;
  for (auto& [name, files] : train) {
    if (files.size() < 2)
      throw UsageError(
          fmt::format("class {} has one picture: two are needed to test with one", name));
    const auto wanted = static_cast<std::size_t>(std::round(share * double(files.size())));
    const std::size_t count = std::clamp<std::size_t>(wanted, 1, files.size() - 1);
    test[name].assign(files.end() - static_cast<std::ptrdiff_t>(count), files.end());
    files.resize(files.size() - count);
  }
  return test;
}

}  // namespace

bool has_pictures(const path& folder) {
  if (is_directory(folder / "train")) return true;
  for (const auto& entry : directory_iterator(folder))
    if (is_folder(entry))
      for (const auto& file : directory_iterator(entry.path()))
        if (is_jpeg(file)) return true;
  return false;
}

PictureFolder list_pictures(const path& folder, double held_out) {
  if (!is_directory(folder)) throw UsageError(folder.string() + " is not a folder");
  PictureFolder found;
  const bool parted = is_directory(folder / "train");
  ByClass train = list_classes(parted ? folder / "train" : folder, found.others);
  const path val = is_directory(folder / "val") ? folder / "val" : folder / "test";
  const bool has_val = parted && is_directory(val);
  const ByClass test = has_val ? list_classes(val, found.others) : hold_out(train, held_out);
  for (const auto& [name, files] : train) found.classes.push_back(name);
  for (const auto& [name, files] : test)
    if (!train.contains(name))
      throw UsageError(fmt::format("{} is a class that {} does not have", (val / name).string(),
                                   (folder / "train").string()));
  found.train = in_turns(train, found.classes);
  found.test = in_turns(test, found.classes);
  return found;
}

}  // namespace lockstep
