// A wrong command line, and what must be said of it.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>

#include "cli/outcome.h"

namespace lockstep {

struct Mistake {
  std::string arguments, what_is_said;
  friend void PrintTo(const Mistake& m, std::ostream* out) { *out << m.arguments; }
};

// Status 2, nothing on stdout, and one sentence.
inline void expect_refused(const Outcome& outcome, const Mistake& mistake) {
  using ::testing::HasSubstr;
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::IsEmpty());
  EXPECT_THAT(outcome.err, ::testing::StartsWith("lockstep: "));
  EXPECT_THAT(outcome.err, HasSubstr(mistake.what_is_said));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1);
}

}  // namespace lockstep
