// Command lines as people type them, made fit for CLI11, and numbers from flags.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The arguments after the program's name. `-np 4` becomes `-n 4`, and a negative number is joined
// to its flag, so that it is judged as a value and not taken for another flag.
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// UsageError: "-n must be a whole number from 1 to 4096, not '0'".
int count_from(const std::string& flag, const std::string& text, int least, int most);
// The same path, which no command line takes for a flag: ./-x for -x.
std::string no_flag(const std::string& path);
// "a,b" cut at its commas.
std::vector<std::string> list_from(const std::string& text);

}  // namespace lockstep
