// Samples with a class each, or with one for each of their pixels or tokens. Immutable once opened,
// so that any number of threads and ranks of a process share one; no LibTorch here: loader.h makes
// tensors of what is read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

using Shape = std::vector<std::int64_t>;  // of one sample: channels, height, width; or any other
inline std::size_t values_in(const Shape& shape) {
  std::size_t values = 1;
  for (std::int64_t extent : shape) values *= static_cast<std::size_t>(extent);
  return values;
}

// What is known of a set before any sample is read.
struct Facts {
  Shape shape;
  std::vector<int> labels;  // by sample, 0..classes-1; zeros where a sample has many
  int classes = 0;
  Shape label_shape =
      {};               // of one sample's labels: height, width of a mask; none: one for all of it
  bool tokens = false;  // samples are whole numbers, 0..classes-1, such as characters
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;

  std::size_t size() const { return facts_.labels.size(); }
  const Shape& shape() const { return facts_.shape; }
  std::size_t values() const { return values_; }  // numbers in one sample
  int classes() const { return facts_.classes; }
  std::span<const int> labels() const { return facts_.labels; }
  const Shape& label_shape() const { return facts_.label_shape; }
  bool tokens() const { return facts_.tokens; }

  // Writes these samples, normalised, one after the other to `x`, which holds indices.size() *
  // values() numbers. A set that augments draws what it does to a sample from (variation, index)
  // alone: neither order nor thread matters. REQUIRES: every index < size().
  virtual void read(std::span<const std::uint32_t> indices, std::uint64_t variation,
                    float* x) const = 0;
  // The same for what they are labelled with: values_in(label_shape()) numbers for each sample.
  virtual void read_labels(std::span<const std::uint32_t> indices, std::uint64_t /*variation*/,
                           std::int64_t* y) const {
    for (std::uint32_t index : indices) *y++ = facts_.labels[index];
  }
  // Is reading so slow that it should be done ahead, by other threads?
  virtual bool slow() const { return false; }
  // Files found damaged so far, and why; each sample of theirs was replaced by another of its
  // class.
  virtual std::vector<std::string> damaged() const { return {}; }

  // Forgets all but the first `most` samples. Before the set is shared.
  void keep_first(std::size_t most) { facts_.labels.resize(std::min(most, size())); }

 protected:
  explicit Dataset(Facts facts) : facts_(std::move(facts)), values_(values_in(facts_.shape)) {}

 private:
  Facts facts_;
  std::size_t values_;
};

struct Data {
  std::string name;  // what it really is: generated digits never pass as mnist
  std::string spec;  // opens exactly this again, from the same working folder, or fails
  std::unique_ptr<Dataset> train, test;
  std::vector<std::string> notices;  // one sentence each, for the user: what is not as asked for
};

}  // namespace lockstep
