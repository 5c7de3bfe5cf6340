// Every schedule with the parameters that are worth a test of their own, for whoever walks them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "parallel/pipeline_schedule.h"

namespace lockstep {

// Specs without `microbatches`, which the tests vary.
inline std::vector<std::string> specs_of(const PipelineScheduleRow& row) {
  std::vector<std::string> specs = {std::string(row.name) + ":"};
  for (const std::string_view key : keys_in(row.defaults)) {
    std::vector<std::string> values;
    if (key == "folded" || key == "recompute") values = {"off", "on"};
    if (key == "chunks") values = {"2", "3", "5"};
    if (key == "times") values = {"1", "2", "4"};
    if (values.empty()) continue;
    std::vector<std::string> longer;
    for (const std::string& spec : specs)
      for (const std::string& value : values)
        longer.push_back(fmt::format("{}{}={},", spec, key, value));
    specs = longer;
  }
  return specs;
}

// Calls test(spec, schedule) for every schedule x 1..8 workers x 1..16 micro-batches, but those
// that it has to refuse.
template <class Test>
void for_all_schedules(const Test& test) {
  for (const PipelineScheduleRow& row : pipeline_schedules())
    for (const std::string& begin : specs_of(row))
      for (int workers = 1; workers <= 8; ++workers)
        for (int micros = 1; micros <= 16; ++micros) {
          if (row.name == "interleaved" && micros % workers != 0) continue;
          const std::string spec = fmt::format("{}microbatches={}", begin, micros);
          test(fmt::format("{} on {} workers", spec, workers), pipeline_schedule(spec, workers));
        }
}

}  // namespace lockstep
