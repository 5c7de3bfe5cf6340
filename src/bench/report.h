// Measurements as people and programs read them: the table of nccl-tests, JSON lines, and ratios in
// words.
#pragma once

#include <string>

#include "bench/contest.h"

namespace lockstep::bench {

// Comment lines that head the table: what was asked, column names, units.
std::string table_head(const Work& work, int ranks, int repeats);
std::string table_row(const Measured&, int ranks);
std::string json_line(const Measured&, int ranks);

// "auto is 6.9x (6.5..7.3) faster than openmpi at 100 MiB on 2 ranks"
std::string ratio_sentence(const Measured& ours, const Measured& theirs, int ranks);
std::string ratio_json_line(const Measured& ours, const Measured& theirs, int ranks);

// "100 MiB", "4 KiB", "1000 bytes"
std::string size_in_words(std::size_t bytes);

}  // namespace lockstep::bench
