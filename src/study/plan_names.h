// Are all names in a study's file names of something?
#pragma once

#include "study/study_file.h"

namespace lockstep::study {

// Every key is one of `flags`; an axis may also be a word that stands in braces in some value, and
// such a word is an axis. UsageError with file, line and the nearest match.
void check_names(const StudyFile&, const std::vector<std::string>& flags);

}  // namespace lockstep::study
