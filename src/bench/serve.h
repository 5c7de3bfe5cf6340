// A worker's life: take part in what comes through the pipe until the bench has gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/participant.h"

namespace lockstep::bench {

// Joins its engine, says so, and serves. Joining may block until all ranks are there.
// Errors are told to the bench and thrown.
void serve(const std::string& pipe_folder, int rank,
           const std::function<std::unique_ptr<Participant>()>& join);

}  // namespace lockstep::bench
