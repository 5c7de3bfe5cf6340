#include "strategies/rounds/round_files.h"

#include <filesystem>

#include "core/error.h"
#include "core/whole_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kDigits = 8;             // of a round in a file's name
constexpr std::size_t kSumBytes = 64;  // after the numbers: their checksum, in hexadecimal

}  // namespace

RoundFiles::RoundFiles(const std::string& run_folder) : folder_(run_folder + "/exchange") {
  fs::create_directories(folder_);
}

std::string RoundFiles::of_round(std::uint64_t round) {
  return fmt::format("{:0{}}.model", round, kDigits);
}

std::string RoundFiles::of_result(std::uint64_t round, int task, int worker) {
  return fmt::format("{:0{}}-task{}-rank{}.model", round, kDigits, task, worker);
}

void RoundFiles::write(const std::string& name, const RoundModel& model) const {
  std::string text;
  for (const Bytes part : {model.weights.bytes(), model.statistics.bytes()})
    if (part.size > 0) text.append(reinterpret_cast<const char*>(part.data), part.size);
  write_whole(path_of(name), text + checksum({text.data(), text.size()}));
}

bool RoundFiles::read(const std::string& name, const RoundModel& into) const {
  const std::string path = path_of(name);
  std::string text;
  try {
    text = read_whole(path);
  } catch (const UsageError&) {
    if (!fs::exists(path)) return false;
    throw;
  }
  const Bytes weights = into.weights.bytes(), statistics = into.statistics.bytes();
  const std::size_t size = weights.size + statistics.size;
  if (text.size() != size + kSumBytes)
    throw UsageError(
        fmt::format("{} is cut, or not of this network: it has {} bytes where {} are expected",
                    path, text.size(), size + kSumBytes));
  if (checksum({text.data(), size}) != text.substr(size))
    throw UsageError(fmt::format("{} is damaged: its checksum is not that of its numbers", path));
  copy(weights, {text.data(), weights.size});
  copy(statistics, {text.data() + weights.size, statistics.size});
  return true;
}

void RoundFiles::remove(const std::string& name) const {
  std::error_code ignored;
  fs::remove(path_of(name), ignored);
}

void RoundFiles::throw_not_shared(const std::string& what) const {
  throw UsageError(
      fmt::format("{} is not in {}: all hosts must share the run's folder, or use "
                  "exchange=messages",
                  what, folder_));
}

void RoundFiles::remove_until(std::uint64_t round) const {
  const std::string last = fmt::format("{:0{}}", round, kDigits);
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, ignored))
    if (file.path().extension() != ".partial" &&
        file.path().filename().string().substr(0, kDigits) <= last)
      fs::remove(file, ignored);
}

void RoundFiles::remove_all() const {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep
