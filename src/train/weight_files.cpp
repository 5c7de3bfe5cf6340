#include "train/weight_files.h"

#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "train/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// In front of the numbers: weights, then statistics.
struct Header {
  char kind[8] = {'l', 'o', 'c', 'k', 'm', 'd', 'l', '1'};
  std::uint64_t weights = 0, statistics = 0;
  char sha256[64] = {};  // of the numbers, in hexadecimal
};

void write_model(const std::string& path, const RoundModel& model) {
  const Bytes weights = model.weights.bytes(), statistics = model.statistics.bytes();
  std::string text(sizeof(Header) + weights.size + statistics.size, '\0');
  char* const numbers = text.data() + sizeof(Header);
  std::memcpy(numbers, weights.data, weights.size);
  if (statistics.size > 0) std::memcpy(numbers + weights.size, statistics.data, statistics.size);
  Header header;
  header.weights = model.weights.count();
  header.statistics = model.statistics.count();
  const std::string sum = checksum({numbers, weights.size + statistics.size});
  std::memcpy(header.sha256, sum.data(), sizeof header.sha256);
  std::memcpy(text.data(), &header, sizeof header);
  write_whole(path, text);
}

bool read_model(const std::string& path, const RoundModel& into) {
  std::string text;
  try {
    text = read_whole(path);
  } catch (const UsageError&) {
    if (!fs::exists(path)) return false;
    throw;
  }
  Header header;
  const Bytes weights = into.weights.bytes(), statistics = into.statistics.bytes();
  if (text.size() >= sizeof header) std::memcpy(&header, text.data(), sizeof header);
  if (text.size() != sizeof header + weights.size + statistics.size ||
      std::memcmp(header.kind, Header().kind, sizeof header.kind) != 0 ||
      header.weights != into.weights.count() || header.statistics != into.statistics.count())
    throw UsageError(
        fmt::format("{} is cut, or not of this network: it has {} bytes where {} are "
                    "expected",
                    path, text.size(), sizeof header + weights.size + statistics.size));
  const char* const numbers = text.data() + sizeof header;
  if (checksum({numbers, weights.size + statistics.size}) !=
      std::string(header.sha256, sizeof header.sha256))
    throw UsageError(fmt::format("{} is damaged: its checksum is not that of its numbers", path));
  std::memcpy(weights.data, numbers, weights.size);
  if (statistics.size > 0) std::memcpy(statistics.data, numbers + weights.size, statistics.size);
  return true;
}

constexpr int kDigits = 8;  // of a round in a file's name

}  // namespace

WeightFiles::WeightFiles(const std::string& run_folder) : folder_(run_folder + "/exchange") {
  fs::create_directories(folder_);
}

std::string WeightFiles::name(std::uint64_t round) const {
  return fmt::format("{}/{:0{}}.model", folder_, round, kDigits);
}

std::string WeightFiles::name(std::uint64_t round, int task, int worker) const {
  return fmt::format("{}/{:0{}}-task{}-rank{}.model", folder_, round, kDigits, task, worker);
}

void WeightFiles::write(std::uint64_t round, const RoundModel& model) const {
  write_model(name(round), model);
}

bool WeightFiles::read(std::uint64_t round, const RoundModel& into) const {
  return read_model(name(round), into);
}

void WeightFiles::write_result(std::uint64_t round, int task, int worker,
                               const RoundModel& model) const {
  write_model(name(round, task, worker), model);
}

bool WeightFiles::read_result(std::uint64_t round, int task, int worker,
                              const RoundModel& into) const {
  return read_model(name(round, task, worker), into);
}

void WeightFiles::remove_result(std::uint64_t round, int task, int worker) const {
  std::error_code ignored;
  fs::remove(name(round, task, worker), ignored);
}

void WeightFiles::throw_not_shared(const std::string& what) const {
  throw UsageError(
      fmt::format("{} is not in {}: all hosts must share the run's folder, or use "
                  "exchange=messages",
                  what, folder_));
}

void WeightFiles::remove_until(std::uint64_t round) const {
  const std::string last = fmt::format("{:0{}}", round, kDigits);
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, ignored))
    if (file.path().extension() != ".partial" &&
        file.path().filename().string().substr(0, kDigits) <= last)
      fs::remove(file, ignored);
}

void WeightFiles::remove_all() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep
