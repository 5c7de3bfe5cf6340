// The variants of a study beside each other, by their figures.
#pragma once

#include <optional>
#include <string_view>

#include "study/figures.h"
#include "study/results.h"
#include "study/statistics.h"

namespace lockstep::study {

struct Compared {
  const Variant* variant = nullptr;
  const Compared* baseline = nullptr;  // at the same point of the grid; null: none, or it is this
  std::map<std::string_view, BySeed> values;  // by figure, of the runs that are done
  bool oversubscribed = false, simulated = false;

  // Empty: there is no such figure, or no baseline, or no seed that both have.
  std::optional<Estimate> of(std::string_view figure) const;
  // A ratio or a difference, as the figure says.
  std::optional<Estimate> against_baseline(std::string_view figure) const;
};

// In the order of the study's variants. They refer to each other: keep the vector as it is.
std::vector<Compared> compare(const Study&, const Records&);

}  // namespace lockstep::study
