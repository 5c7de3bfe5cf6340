// Event files against published checksums, the opening bytes of files that TensorFlow writes, and a
// decoder that knows the format's rules alone.
#include "measure/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "core/whole_file.h"
#include "folder.h"

namespace lockstep {
namespace {

template <class T>
T number_at(std::string_view data, std::size_t at) {
  T value;
  EXPECT_LE(at + sizeof value, data.size());
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t turned = masked - 0xa282ead8u;
  return turned << 15 | turned >> 17;
}

std::vector<std::string> records_in(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto size = number_at<std::uint64_t>(file, at);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, at + 8)), crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, size));
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(file, at + 12 + size)), crc32c(records.back()));
    at += 16 + size;
  }
  return records;
}

// A message's fields, numbers as they lie there.
std::map<int, std::string> fields_of(std::string_view message) {
  std::map<int, std::string> fields;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(0));
      message.remove_prefix(1);
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!message.empty()) {
    const std::uint64_t key = varint();
    std::uint64_t size = 8;
    if ((key & 7) == 0) {
      const std::uint64_t value = varint();
      fields[static_cast<int>(key >> 3)] = std::string(reinterpret_cast<const char*>(&value), 8);
      continue;
    }
    if ((key & 7) == 2) size = varint();
    if ((key & 7) == 5) size = 4;
    fields[static_cast<int>(key >> 3)] = std::string(message.substr(0, size));
    message.remove_prefix(size);
  }
  return fields;
}

class Events : public ::testing::Test {
 protected:
  const testing::Folder folder_;
  const std::string path_ = folder_ / "events.out.tfevents";
};

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST_F(Events, StartAsTensorFlowsDo) {
  const EventFile file(path_, 0, 1.5e9);
  const std::string bytes = read_whole(path_);
  const unsigned char opening[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09};
  EXPECT_EQ(std::memcmp(bytes.data(), opening, sizeof opening), 0);
  const auto records = records_in(bytes);
  ASSERT_EQ(records.size(), 1u);
  const auto event = fields_of(records[0]);
  EXPECT_EQ(event.at(3), "brain.Event:2");
  EXPECT_EQ(number_at<double>(event.at(1), 0), 1.5e9);
}

TEST_F(Events, HoldScalarsByTagAndStep) {
  EventFile file(path_, 0, 0);
  file.scalar("accuracy", 300, 12.5, 0.75);
  file.flush();
  const auto records = records_in(read_whole(path_));
  ASSERT_EQ(records.size(), 2u);
  const auto event = fields_of(records[1]);
  EXPECT_EQ(number_at<double>(event.at(1), 0), 12.5);
  EXPECT_EQ(number_at<std::uint64_t>(event.at(2), 0), 300u);
  const auto value = fields_of(fields_of(event.at(5)).at(1));
  EXPECT_EQ(value.at(1), "accuracy");
  EXPECT_EQ(number_at<float>(value.at(2), 0), 0.75f);
}

TEST_F(Events, AResumedRunTellsReadersToDropLaterSteps) {
  { EventFile(path_, 0, 0).flush(); }
  const EventFile again(path_, 40, 7);
  const auto records = records_in(read_whole(path_));
  ASSERT_EQ(records.size(), 2u);
  const auto event = fields_of(records[1]);
  EXPECT_EQ(number_at<std::uint64_t>(event.at(2), 0), 41u);
  EXPECT_EQ(number_at<std::uint64_t>(fields_of(event.at(7)).at(1), 0), 1u);  // START
}

}  // namespace
}  // namespace lockstep
