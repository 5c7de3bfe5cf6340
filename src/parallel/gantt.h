// A forecast as a chart of text: a line a worker, from left to right in time.
//
//   worker 0 |F0F1F2......B0==B1==B2==|
//   worker 1 |..F0F1F2B0==B1==B2==....|
//   F forward, B backward, with the micro-batch's number; '=' goes on, '.' waits; …
#pragma once

#include <string>

#include "parallel/forecast.h"

namespace lockstep {

// Lines of at most `columns` letters, legend included. Where that is too narrow, actions lose their
// numbers, and the shortest vanish; the legend says how many.
std::string gantt(const PipelineSchedule&, const Forecast&, int columns = 100);

}  // namespace lockstep
