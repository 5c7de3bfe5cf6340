// Recorded results and how new ones are held against them. A file under tests/golden/ has one line
// for each case: its name and then its fields, `NAME | FIELD VALUE | FIELD VALUE`. Lines that begin
// with # are for the reader. Knows nothing of what the cases run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace lockstep::golden {

// FNV-1a over words of eight bytes (the last one filled up with zeros), the same on every machine
// of our byte order.
class Hash {
 public:
  void add(ConstBytes bytes) {
    for (std::size_t at = 0; at < bytes.size; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data + at, std::min(bytes.size - at, sizeof word));
      value_ = (value_ ^ word) * 1099511628211ull;
      value_ ^= value_ >> 32;  // or the high bits of a word reach nothing below them
    }
  }
  void add(std::string_view text) { add(ConstBytes(text.data(), text.size())); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(T number) { add(ConstBytes(&number, sizeof number)); }

  std::uint64_t value() const { return value_; }
  std::string text() const;        // 16 digits
  std::string short_text() const;  // 8 digits, for lists

 private:
  std::uint64_t value_ = 14695981039346656037ull;
};

// So that the same text means the same bits.
std::string exact(double number);

struct Field {
  std::string name, value;
  bool operator==(const Field&) const = default;
};

// What one case came to.
struct Line {
  std::string name;
  std::vector<Field> fields;

  void add(std::string field, std::string value);
  // nullptr: it has no such field.
  const std::string* find(std::string_view field) const;
};

std::string to_text(const Line&);
Line line_from(const std::string& text);  // UsageError if it is none

struct Difference {
  std::string field;     // "case" where one side lacks the whole line
  std::string sentence;  // which case, what was expected, what was seen
};
// What of the recorded lines is left out of a comparison.
struct Except {
  std::vector<std::string> fields, cases;
};
std::vector<Difference> differences(const std::vector<Line>& recorded,
                                    const std::vector<Line>& seen, const Except& = {});

// The lines of a file; none if there is no file.
std::vector<Line> read_recorded(const std::string& path);

// Both end a test: EXPECT_TRUE of what they return prints what is wrong.
//
// Compares with tests/golden/FILE.
::testing::AssertionResult compare_with(const std::string& file, const std::vector<Line>& seen,
                                        const Except& = {});
// The same; but if the environment has LOCKSTEP_GOLDEN=write, which `make golden` sets, it writes
// the file anew, unless a case failed.
::testing::AssertionResult compare_or_write(const std::string& file, const std::vector<Line>& seen);

}  // namespace lockstep::golden
