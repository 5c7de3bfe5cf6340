// Networks that somebody else wrote: TorchScript, as torch.jit.save leaves it.
#pragma once

#include "replica/network.h"

namespace lockstep {

// Our own copy of what the file holds; the file itself is never written, also not by save().
// UsageError if it cannot be read or is no TorchScript.
std::unique_ptr<Network> load_script(const std::string& path);

}  // namespace lockstep
