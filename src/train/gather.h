// Texts of all ranks brought to rank 0: results, metrics, error counts. Never on the training path.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

// Collective. On rank 0 every rank's text, by rank; on the others nothing. `gone`: those of which
// nothing is to be had are added, and their texts are empty; without it they are an error.
std::vector<std::string> gather_texts(Transport&, const std::string& mine,
                                      std::set<int>* gone = nullptr);
// Collective. That rank's text, which is the same for all, on all ranks.
std::string text_of(Transport&, int rank, const std::string& mine);
// The same of rank 0.
std::string text_of_first(Transport&, const std::string& mine);
// Collective. The sum over all ranks, element by element and the same on all of them, in place.
void sum_over_ranks(Transport&, std::vector<double>&);
// Collective. Rank r's numbers in row r, on rank 0; nothing on the others. `gone`: as above.
std::vector<std::vector<double>> rows_at_first(Transport&, const std::vector<double>& mine,
                                               std::set<int>* gone = nullptr);
// Collective. Rank r's numbers in row r, on every rank. REQUIRES: as many on every rank.
std::vector<std::vector<double>> all_rows(Transport&, const std::vector<double>& mine);

}  // namespace lockstep
