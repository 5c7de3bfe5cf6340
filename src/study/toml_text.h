// TOML that people wrote, or strangers.
#pragma once

#include <toml++/toml.h>

#include <string>

namespace lockstep::study {

// `path` is for messages. UsageError, "FILE:LINE: what is wrong": it is not TOML, or nests deeper
// than any setting does, which would take more stack than there is.
toml::table toml_in(const std::string& text, const std::string& path);

}  // namespace lockstep::study
