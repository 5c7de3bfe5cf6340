// Parts of sentences about figures.
#pragma once

#include <string>
#include <vector>

#include "study/comparison.h"

namespace lockstep::study {

// "97.42 % (97.1 to 97.7, 3 seeds)", "1.2 MB (one run)".
std::string estimate_text(const Estimate&, const Figure&);
// Against the baseline: "+0.05 points, 95 % interval -0.20 to 0.30, 3 seeds". REQUIRES: it has one.
std::string against_text(const Compared&, std::string_view figure);
// "a loss of up to 0.25 points is not excluded", "a loss is excluded"; of accuracy against the
// baseline, the largest over all of these. REQUIRES: all have an interval.
std::string loss_text(const std::vector<const Compared*>&);
// "one run can't tell", "2 seeds can't tell".
std::string cant_tell(std::size_t n);

// Who has less, who more, and for whom no difference is shown, against the baseline, for each of
// these figures that sets anyone apart; before them, in one sentence, those that set nobody apart.
// Only where there are intervals.
std::vector<std::string> differences(const std::vector<const Compared*>&,
                                     std::initializer_list<std::string_view> figures);
// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>&);
std::string capitalised(std::string sentence);

// How time to exchange and accuracy go along an axis of numbers, a sentence each.
std::vector<std::string> along(const ShownAxis&, const std::vector<Compared>&);

// Why runs are missing, in the words of the first.
std::string missing_reason(const Study&);

}  // namespace lockstep::study
