// Networks by name. Each adapts to the shape of the samples and the number of classes, and gives
// one score (logit) for each class: along the second dimension, before those of the labels. Each is
// a list of blocks (replica/blocks.h), so that it can be cut.
//
// A new one is a file of its own, with make_NAME, and a line in models.def.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "replica/network.h"

namespace lockstep {

struct ModelInput {
  std::vector<std::int64_t> shape;  // of one sample: channels, height, width for images
  std::int64_t classes = 0;
  std::vector<std::int64_t> label_shape = {};  // of one sample's labels; none: one for all of it
  bool tokens = false;                         // samples are int64, 0..classes-1
};

// What has a class.
enum class Labelled { sample, pixel, token };

struct ModelRow {
  std::string_view name;
  Labelled labelled;
  std::string_view defaults;  // every key with its default: "width=256,depth=2"
  std::string_view description;
  std::unique_ptr<Network> (*make)(const Options&, const ModelInput&);
};

std::span<const ModelRow> models();
// Is it the path of a TorchScript file, and no name? Whatever ends in .pt, or has a '/', is.
bool names_file(std::string_view spec);
// NAME[:key=value,…], or the path of a TorchScript file.
// Initial weights come from LibTorch's generator: see draw_network(). UsageError if the name, a
// key or the file is wrong, or the network can't take such samples.
std::unique_ptr<Network> make_model(std::string_view spec, const ModelInput&);

#define MODEL(function, name, labelled, defaults, description) \
  std::unique_ptr<Network> make_##function(const Options&, const ModelInput&);
#include "models/models.def"
#undef MODEL

}  // namespace lockstep
