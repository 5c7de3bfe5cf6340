// Whoever decides what depends on arrival: who came first, was it there yet, who took the lock.
// Three kinds: live (as it comes), recording (as it comes, written down), replaying (as it was
// written down). One a lane: the calls of one thread come in one order. A lock has one of its own,
// guarded by the lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"

namespace lockstep {

// The replayed program asked for something other than the recorded one did.
class ReplayDiverged : public Error {
 public:
  using Error::Error;
};

// What was written down. A few bytes a choice.
struct WitnessLog {
  std::vector<std::uint64_t> choices;  // each: kind and number of words, then the words
  // Receives that were given up, by number: was a message lost with it?
  std::map<std::uint64_t, bool> given_up;

  std::vector<std::byte> to_bytes() const;
  static WitnessLog from_bytes(ConstBytes);  // UsageError if it isn't one
  bool operator==(const WitnessLog&) const = default;
};

class Witness {  // as it is: the live one
 public:
  enum class Kind : std::uint8_t { wait, test, probe, dead, lock };
  using Words = std::vector<std::uint64_t>;

  virtual ~Witness() = default;

  virtual bool replays() const { return false; }
  // The recorded outcome of the next choice. REQUIRES replays(). ReplayDiverged if that was of
  // another kind.
  virtual Words next(Kind);
  // Looks at the next choice without passing it; none: the record has ended.
  virtual std::optional<std::uint64_t> peek(Kind) { return {}; }
  // Was recv `number` of this lane (counted from 0) given up, and with a message? None: it was not.
  virtual std::optional<bool> given_up(std::uint64_t /*number*/) { return {}; }

  // What happened.
  virtual void note(Kind, const Words&) {}
  virtual void note_given_up(std::uint64_t /*number*/, bool /*with_message*/) {}
};

class RecordingWitness final : public Witness {
 public:
  const WitnessLog& log() const { return log_; }
  void note(Kind, const Words&) override;
  void note_given_up(std::uint64_t number, bool with_message) override {
    log_.given_up[number] = with_message;
  }

 private:
  WitnessLog log_;
};

class ReplayingWitness final : public Witness {
 public:
  explicit ReplayingWitness(WitnessLog log) : log_(std::move(log)) {}

  bool replays() const override { return true; }
  Words next(Kind) override;
  std::optional<std::uint64_t> peek(Kind) override;
  std::optional<bool> given_up(std::uint64_t number) override;
  // Have all recorded choices been made?
  bool finished() const { return at_ == log_.choices.size(); }

 private:
  WitnessLog log_;
  std::size_t at_ = 0;       // in log_.choices
  std::uint64_t count_ = 0;  // choices passed, for messages
};

}  // namespace lockstep
