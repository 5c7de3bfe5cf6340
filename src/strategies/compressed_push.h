// Pushes that a run wants in fewer bytes: what Crew::push_codes makes in place of numbers as they
// are (see push_code.h). Each message is one of the compression's, and what it loses stays in the
// worker's memories, for the next push if the compression has error feedback, else for the audit.
#pragma once

#include "compression/compression.h"
#include "strategies/strategy.h"

namespace lockstep {

struct PushRule {
  Compression compression;
  bool notes_losses = false;      // as in MeanRule; else holds() says how large they may be
  OptimiserTerms optimiser = {};  // for compressors that need it
};

// REQUIRES: a compression that has messages, and is no vote.
MakePushCode compressed_pushes(PushRule);

}  // namespace lockstep
