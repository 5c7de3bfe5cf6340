// One run of a study as a child process of this same program, so that whatever happens to it
// happens to it alone.
#pragma once

#include "study/runner.h"
#include "train/watcher.h"

namespace lockstep {

// Runs it to its end, or stops it (SIGINT, and after a grace SIGKILL) when its time is over or
// `interrupt` becomes readable. Ctrl-Z makes it stand still with us. `watcher` hears of its steps.
study::Ending run_child(const study::Order&, int interrupt, Watcher& watcher);

}  // namespace lockstep
