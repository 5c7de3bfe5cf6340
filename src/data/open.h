// --data NAME[:key=value,…]|DIR: from a name to samples, and what a run is made from by content:
// files may change and keep their names.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "core/options.h"
#include "data/dataset.h"

namespace lockstep {

using Fetch = std::function<void(std::string_view name, const std::filesystem::path& folder)>;

struct OpenRequest {
  std::size_t limit = 0, test_limit = 0;  // the first so many samples; 0: all
  std::filesystem::path cache;            // where fetched sets lie, one folder each
  // Puts the files of the published set of that name (see published.h) into the folder, or throws a
  // UsageError or InternalError that says why it can't; anything else ends the opening. Empty:
  // don't try. A function, because only cli/ starts programs.
  Fetch fetch;
};

struct DatasetRow {
  std::string_view name, description;
  std::string_view keys;  // with their defaults: "samples=1024,classes=10"
  Data (*open)(const Options&, const OpenRequest&);
};
// A new one is a file of its own with open_NAME, and a line in datasets.def.
std::span<const DatasetRow> datasets();

// DIR is known by what it holds; NAME:DIR is short for NAME:dir=DIR, and NAME:FILE for
// NAME:file=FILE. UsageError: no such name or
// folder, or files that are not what they claim to be.
Data open_data(std::string_view spec, const OpenRequest&);

// For resumed runs and studies to compare: hexadecimal SHA-256 of both sets, that is of shapes and
// labels, and of all samples where that is quick, else of some from all over the set.
std::string content_of(const Data&);
// Hexadecimal SHA-256 of the file that --model names. Empty: it names a network of ours.
std::string content_of_model(const std::string& model);

#define DATASET(function, name, description, keys) \
  Data open_##function(const Options&, const OpenRequest&);
#include "data/datasets.def"
#undef DATASET

}  // namespace lockstep
