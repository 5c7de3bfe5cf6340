#include "measure/event_file.h"

#include <array>
#include <bit>
#include <filesystem>

#include "core/whole_file.h"

namespace lockstep {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}

// As the format wants it: a checksum of bytes that hold checksums is weak, so they are disguised.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text += static_cast<char>(value);
}

// Fields of protocol buffers: number and wire type, then the value.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
std::string field(int number, Wire wire, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number << 3 | wire)) + value;
}
std::string bytes_field(int number, std::string_view value) {
  return field(number, kBytes, varint(value.size()) + std::string(value));
}

// Event: wall_time 1, step 2, and one of file_version 3, summary 5, session_log 7.
std::string event(double calendar_s, std::uint64_t step, const std::string& what) {
  const std::string number = step > 0 ? field(2, kVarint, varint(step)) : "";
  return field(1, kFixed64, little_endian(calendar_s)) + number + what;
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : data) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return length + little_endian(masked(crc32c(length))) + std::string(data) +
         little_endian(masked(crc32c(data)));
}

EventFile::EventFile(std::string path, std::uint64_t step, double calendar_s)
    : path_(std::move(path)) {
  if (!std::filesystem::exists(path_))
    kept_ = tf_record(event(calendar_s, 0, bytes_field(3, "brain.Event:2")));
  constexpr std::uint64_t kStart = 1;  // SessionLog: status 1
  if (step > 0)
    kept_ +=
        tf_record(event(calendar_s, step + 1, bytes_field(7, field(1, kVarint, varint(kStart)))));
  flush();
}

void EventFile::scalar(std::string_view tag, std::uint64_t step, double calendar_s, double value) {
  // Summary: value 1; in it tag 1, simple_value 2.
  const std::string scalar =
      bytes_field(1, tag) + field(2, kFixed32, little_endian(static_cast<float>(value)));
  kept_ += tf_record(event(calendar_s, step, bytes_field(5, bytes_field(1, scalar))));
}

void EventFile::flush() {
  append_text(path_, kept_);
  kept_.clear();
}

}  // namespace lockstep
