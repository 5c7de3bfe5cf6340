// Small values of all ranks brought together: results, metrics, counts. Never on the training path.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

// Collective. On rank 0 every rank's text, by rank; on the others nothing. With `gone`, ranks that
// are gone are added to it and their texts are empty; without, they are an error.
std::vector<std::string> gather_texts(Transport&, const std::string& mine,
                                      std::set<int>* gone = nullptr);
// Collective. Rank 0's text, on all ranks.
std::string text_of_first(Transport&, const std::string& mine);
// Collective. The sum over all ranks, element by element and the same on all of them, in place.
void sum_over_ranks(Transport&, std::vector<double>&);
// Collective. Rank r's numbers in row r, on rank 0; nothing on the others. `gone`: as above.
std::vector<std::vector<double>> rows_at_first(Transport&, const std::vector<double>& mine,
                                               std::set<int>* gone = nullptr);
// Collective. Rank r's numbers in row r, on every rank. REQUIRES: as many on every rank.
std::vector<std::vector<double>> all_rows(Transport&, const std::vector<double>& mine);

}  // namespace lockstep
