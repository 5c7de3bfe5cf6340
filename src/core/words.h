// Figures as people read them. (units.h is the way back.)
#pragma once

#include <string>

namespace lockstep {

std::string time_in_words(double seconds);  // "3.1 us", "1.2 ms", "12.3 s", "3 min 20 s"
std::string bytes_in_words(double bytes);   // "1.2 MB"

}  // namespace lockstep
