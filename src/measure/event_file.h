// A file of scalars as TensorBoard reads it: records of length, masked CRC-32C, an Event message of
// protocol buffers, masked CRC-32C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// Of the Castagnoli polynomial, as in RFC 3720.
std::uint32_t crc32c(std::string_view);
// One record around `data`.
std::string tf_record(std::string_view data);

class EventFile {
 public:
  // Appends to `path`. With `step` > 0 the run goes on after that step: readers drop what the file
  // says of later ones. Seconds since 1970. InternalError.
  EventFile(std::string path, std::uint64_t step, double calendar_s);
  void scalar(std::string_view tag, std::uint64_t step, double calendar_s, double value);
  // Hands what was added to the kernel.
  void flush();

 private:
  const std::string path_;
  std::string kept_;
};

}  // namespace lockstep
