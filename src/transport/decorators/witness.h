// What of a run depended on arrival: which request ended first, whether a message was there yet,
// which thread took the lock. Such an outcome is a choice. A recording witness writes choices down
// as they are made; a replaying one tells what they were. One witness sees one lane, or the lock:
// choices of one thread come in one order, and so do those of a lock.
//
// A record is a file for each rank. It has a stream of choices for the rank's lock, for its own
// lane and for each of its background lanes. docs/formats.md says how it is laid out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"

namespace lockstep {

// The replayed program asked for something other than the recorded one did.
class ReplayDiverged : public Error {
 public:
  using Error::Error;
};

// Belongs to the thread of its lane; that of a lock to the thread that holds the lock.
class Witness {
 public:
  // Written in records: keep the order.
  enum class Kind : std::uint8_t { wait, test, probe, dead, decision, lock, given_up };
  using Words = std::vector<std::uint64_t>;

  virtual ~Witness() = default;

  virtual bool replays() const = 0;

  // Of a recording: what happened.
  virtual void note(Kind, std::span<const std::uint64_t>) {}
  void note(Kind kind, std::initializer_list<std::uint64_t> words) {
    note(kind, std::span(words.begin(), words.size()));
  }
  // Request `number` of this lane, counted from 0, was given up. `passed`: its message passed all
  // the same: a receive took one with it, or a send reached its peer.
  virtual void note_given_up(std::uint64_t /*number*/, bool /*passed*/) noexcept {}

  // Of a replay. The outcome of the next choice; ReplayDiverged if that was of another kind.
  virtual Words next(Kind) { return {}; }
  // Looks at the next choice without passing it; none: it is of another kind, or was the last.
  virtual std::optional<std::uint64_t> peek(Kind) { return {}; }
  // Will that request be given up, and has its message passed then? None: it will not.
  virtual std::optional<bool> given_up(std::uint64_t /*number*/) const { return {}; }
  // The replay has failed on another thread: nothing is to be waited for any more.
  virtual bool stopped() const { return false; }
  // Throws ReplayDiverged, which names the lane and the choice.
  [[noreturn]] virtual void diverge(const std::string& what) const { throw ReplayDiverged(what); }
};

class RecordingWitness final : public Witness {
 public:
  // Takes some whole choices at a time. May throw.
  using Put = std::function<void(ConstBytes)>;
  explicit RecordingWitness(Put put);

  bool replays() const override { return false; }
  using Witness::note;
  void note(Kind, std::span<const std::uint64_t>) override;
  void note_given_up(std::uint64_t number, bool passed) noexcept override;
  // Puts what has not been put yet.
  void flush();

 private:
  void write(Kind, std::span<const std::uint64_t> words);

  const Put put_;
  std::vector<std::byte> buffer_;
};

class ReplayingWitness final : public Witness {
 public:
  // What was put at that turn, counted from 0; empty: there was no such turn.
  using Chunks = std::function<std::vector<std::byte>(std::size_t turn)>;
  // `whose`: "rank 1, background lane", for errors. Reads all once: UsageError if these are no
  // choices. Keeps one chunk in memory, and the numbers of requests that were given up.
  ReplayingWitness(std::string whose, Chunks chunks);

  bool replays() const override { return true; }
  Words next(Kind) override;
  std::optional<std::uint64_t> peek(Kind) override;
  std::optional<bool> given_up(std::uint64_t number) const override;
  bool stopped() const override { return stopped_; }
  [[noreturn]] void diverge(const std::string& what) const override;

  // For any thread.
  void stop() { stopped_ = true; }
  // ReplayDiverged unless all choices have been made.
  void expect_end();

 private:
  struct Choice {
    Kind kind;
    Words words;
  };
  // The next one, or none.
  const Choice* ahead();
  std::optional<Choice> read();
  std::uint64_t read_number();
  [[noreturn]] void refuse() const;

  const std::string whose_;
  const Chunks chunks_;
  std::vector<std::byte> chunk_;
  std::size_t turn_ = 0, at_ = 0;  // the next chunk; where in this one
  std::optional<Choice> ahead_;
  std::uint64_t count_ = 0;  // choices passed
  std::map<std::uint64_t, bool> given_up_;
  std::atomic<bool> stopped_ = false;
};

// The streams of a record; those of further background lanes follow.
inline constexpr int kLockStream = 0, kOwnStream = 1, kBackgroundStream = 2;

// Writes a rank's record as the run goes. It has its name when it is whole: until finish() it is
// PATH.part, which goes with this object. InternalError for what the system refuses.
class RecordWriter {
 public:
  // UsageError if there is such a file already.
  RecordWriter(const std::string& path, const std::string& header);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;

  // For the thread that made this.
  Witness& witness(int stream);
  // REQUIRES: no witness is used any more. On disk when it returns.
  void finish(const std::string& closing);

 private:
  void put(int stream, ConstBytes);
  void write(const void* data, std::size_t bytes);
  void write_run(const void* data, std::size_t bytes);  // its length first

  const std::string path_, part_;
  int file_ = -1;
  std::mutex mutex_;  // several threads put
  std::uint64_t sum_;
  std::map<int, RecordingWitness> witnesses_;  // by stream
};

// Reads one, of which nothing is trusted: all of it is checked when it is opened. UsageError says
// what is wrong with it.
class RecordReader {
 public:
  // `whose`: "rank 1".
  RecordReader(const std::string& path, const std::string& whose);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;

  const std::string& header() const { return header_; }
  const std::string& closing() const { return closing_; }
  // For the thread that made this. One that has no choices: there are none in the record.
  ReplayingWitness& witness(int stream);
  // See ReplayingWitness. Of all streams; for the thread that made this.
  void stop();
  void expect_end();

 private:
  struct Chunk {
    std::uint64_t at;
    std::uint32_t bytes;
  };
  void index();
  std::string text(std::uint64_t& at, std::uint64_t end) const;
  void read(std::uint64_t at, void* into, std::size_t bytes) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const std::string path_, whose_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::string header_, closing_;
  std::map<int, std::vector<Chunk>> chunks_;                    // by stream
  std::map<int, std::unique_ptr<ReplayingWitness>> witnesses_;  // by stream
};

}  // namespace lockstep
