// Which source and which libraries this program was built from: lockstep --version, and what a
// study keeps of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

// The version, the commit, and the libraries that this program was built with, on stdout.
void print_version(bool json);

// The commit; with uncommitted changes, "+" and the start of their hash after it. "unknown" where
// it was built outside a repository.
std::string program_commit();
// The same of src/ alone: other commits leave it as it is.
std::string program_source();
// What a replay compares: the version, the commit, and LibTorch's version.
nlohmann::json program_facts();

}  // namespace lockstep
