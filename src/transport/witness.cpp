#include "transport/witness.h"

#include <array>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> kKinds{"wait", "test", "probe", "look at the dead",
                                                 "lock"};

// Seven bits a byte, low ones first; the top bit says that more follow.
void put(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(std::byte(value | 0x80));
  out.push_back(std::byte(value));
}

class Reader {
 public:
  explicit Reader(ConstBytes bytes) : bytes_(bytes) {}

  std::uint64_t get() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size) break;
      const auto byte = static_cast<std::uint64_t>(bytes_.data[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw UsageError(
        "the record of a run's arrivals is damaged: it ends in the middle of a number");
  }
  bool at_end() const { return at_ == bytes_.size; }

 private:
  ConstBytes bytes_;
  std::size_t at_ = 0;
};

constexpr std::uint64_t head(Witness::Kind kind, std::size_t words) {
  return static_cast<std::uint64_t>(words) << 3 | static_cast<std::uint64_t>(kind);
}

}  // namespace

std::vector<std::byte> WitnessLog::to_bytes() const {
  std::vector<std::byte> out;
  put(out, given_up.size());
  for (const auto& [number, with_message] : given_up) {
    put(out, number);
    put(out, with_message);
  }
  for (std::uint64_t word : choices) put(out, word);
  return out;
}

WitnessLog WitnessLog::from_bytes(ConstBytes bytes) {
  Reader reader(bytes);
  WitnessLog log;
  for (std::uint64_t left = reader.get(); left > 0; --left) {
    const std::uint64_t number = reader.get();
    log.given_up[number] = reader.get() != 0;
  }
  while (!reader.at_end()) {
    log.choices.push_back(reader.get());
    for (std::uint64_t words = log.choices.back() >> 3; words > 0; --words)
      log.choices.push_back(reader.get());
  }
  return log;
}

Witness::Words Witness::next(Kind) { throw InternalError("a live witness has nothing to replay"); }

void RecordingWitness::note(Kind kind, const Words& words) {
  log_.choices.push_back(head(kind, words.size()));
  log_.choices.insert(log_.choices.end(), words.begin(), words.end());
}

Witness::Words ReplayingWitness::next(Kind kind) {
  const auto asked = kKinds[static_cast<std::size_t>(kind)];
  if (finished())
    throw ReplayDiverged(fmt::format(
        "the replay asks for a {} after the recorded run's {} choices: replay the same program "
        "with the same configuration",
        asked, count_));
  const std::uint64_t recorded = log_.choices[at_];
  if ((recorded & 7) != static_cast<std::uint64_t>(kind))
    throw ReplayDiverged(fmt::format(
        "choice {} of the replay is a {} where the recorded run had a {}: replay the same program "
        "with the same configuration",
        count_, asked, kKinds.at(recorded & 7)));
  const auto begin = log_.choices.begin() + static_cast<std::ptrdiff_t>(at_) + 1;
  const auto words = static_cast<std::ptrdiff_t>(recorded >> 3);
  at_ += 1 + static_cast<std::size_t>(words);
  ++count_;
  return {begin, begin + words};
}

std::optional<std::uint64_t> ReplayingWitness::peek(Kind kind) {
  if (finished() || log_.choices[at_] != head(kind, 1)) return {};
  return log_.choices[at_ + 1];
}

std::optional<bool> ReplayingWitness::given_up(std::uint64_t number) {
  const auto found = log_.given_up.find(number);
  return found == log_.given_up.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lockstep
