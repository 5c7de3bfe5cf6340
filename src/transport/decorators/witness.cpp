#include "transport/decorators/witness.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/whole_file.h"

namespace lockstep {
namespace {

using Kind = Witness::Kind;

constexpr std::array<std::string_view, 7> kKinds{
    "wait", "test", "probe", "look at the dead", "decision", "lock", "request given up"};
constexpr int kKindBits = 3;

constexpr std::string_view kMagic = "lockstep record 1\n";
constexpr std::uint8_t kClosing = 0xff;        // in place of a stream
constexpr std::size_t kPutBytes = 32 << 10;    // as soon as a chunk is so long it is written
constexpr std::uint32_t kMostBytes = 1 << 20;  // of a chunk or a text
constexpr std::uint64_t kMostWords = 4096;     // of a choice: a rank each
constexpr std::uint64_t kNoSum = 14695981039346656037ull;  // FNV-1a, 64 bits

std::uint64_t add_to(std::uint64_t sum, const void* data, std::size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ byte[i]) * 1099511628211ull;
  return sum;
}

// Can these be the words of such a choice? They are used as they are.
bool fits(Kind kind, const Witness::Words& words) {
  constexpr std::uint64_t kMostRank = std::numeric_limits<int>::max();
  switch (kind) {
    case Kind::wait:  // requests; how it ended and which request or peer, unless the first arrived
      if (words.size() == 1) return words[0] > 0;
      return words.size() == 3 && (words[1] == 0 ? words[2] < words[0] : words[2] <= kMostRank);
    case Kind::probe:
      return words.empty() || (words.size() == 2 && words[0] <= kMostRank);
    case Kind::dead:
      return std::ranges::all_of(words, [](std::uint64_t rank) { return rank <= kMostRank; });
    case Kind::given_up:
      return words.size() == 2;
    case Kind::test:
    case Kind::decision:
    case Kind::lock:
      return words.size() == 1;
  }
  return false;
}

}  // namespace

RecordingWitness::RecordingWitness(Put put) : put_(std::move(put)) {
  buffer_.reserve(2 * kPutBytes);
}

void RecordingWitness::write(Kind kind, std::span<const std::uint64_t> words) {
  // Seven bits a byte, low ones first; the top bit says that more follow.
  const auto put = [&](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) buffer_.push_back(std::byte(value | 0x80));
    buffer_.push_back(std::byte(value));
  };
  put(static_cast<std::uint64_t>(words.size()) << kKindBits | static_cast<std::uint64_t>(kind));
  for (const std::uint64_t word : words) put(word);
}

void RecordingWitness::note(Kind kind, std::span<const std::uint64_t> words) {
  write(kind, words);
  if (buffer_.size() >= kPutBytes) flush();
}

void RecordingWitness::note_given_up(std::uint64_t number, bool passed) noexcept {
  const std::uint64_t words[] = {number, passed};
  write(Kind::given_up, words);
}

void RecordingWitness::flush() {
  if (!buffer_.empty()) put_({buffer_.data(), buffer_.size()});
  buffer_.clear();
}

ReplayingWitness::ReplayingWitness(std::string whose, Chunks chunks)
    : whose_(std::move(whose)), chunks_(std::move(chunks)) {
  while (const auto choice = read())
    if (choice->kind == Kind::given_up) given_up_[choice->words[0]] = choice->words[1] != 0;
  turn_ = at_ = 0;
  chunk_.clear();
}

void ReplayingWitness::refuse() const {
  throw UsageError(fmt::format("the record of {} is damaged: its {}th chunk is no list of choices",
                               whose_, turn_));
}

void ReplayingWitness::diverge(const std::string& what) const {
  throw ReplayDiverged(
      fmt::format("{}, choice {}: {}; replay the same program on the same kind of machine", whose_,
                  count_, what));
}

std::uint64_t ReplayingWitness::read_number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && at_ < chunk_.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(chunk_[at_++]);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  refuse();
}

std::optional<ReplayingWitness::Choice> ReplayingWitness::read() {
  if (at_ == chunk_.size()) {
    chunk_ = chunks_(turn_++);
    at_ = 0;
    if (chunk_.empty()) return {};
  }
  const std::uint64_t head = read_number(), count = head >> kKindBits;
  const std::uint64_t kind = head & ((1u << kKindBits) - 1);
  if (kind >= kKinds.size() || count > kMostWords) refuse();
  Choice choice{static_cast<Kind>(kind), Words(count)};
  for (std::uint64_t& word : choice.words) word = read_number();
  if (!fits(choice.kind, choice.words)) refuse();
  return choice;
}

const ReplayingWitness::Choice* ReplayingWitness::ahead() {
  while (!ahead_ || ahead_->kind == Kind::given_up)
    if (ahead_ = read(); !ahead_) return nullptr;
  return &*ahead_;
}

Witness::Words ReplayingWitness::next(Kind kind) {
  const std::string_view asked = kKinds[static_cast<std::size_t>(kind)];
  const Choice* const recorded = ahead();
  if (!recorded)
    diverge(fmt::format("the replay makes a {} after the recorded run's last choice", asked));
  if (recorded->kind != kind)
    diverge(fmt::format("the replay makes a {} where the recorded run made a {}", asked,
                        kKinds[static_cast<std::size_t>(recorded->kind)]));
  Words words = std::move(ahead_->words);
  ahead_.reset();
  ++count_;
  return words;
}

std::optional<std::uint64_t> ReplayingWitness::peek(Kind kind) {
  const Choice* const recorded = ahead();
  if (!recorded || recorded->kind != kind) return {};
  return recorded->words[0];
}

std::optional<bool> ReplayingWitness::given_up(std::uint64_t number) const {
  const auto found = given_up_.find(number);
  return found == given_up_.end() ? std::nullopt : std::optional(found->second);
}

void ReplayingWitness::expect_end() {
  if (const Choice* const recorded = ahead())
    diverge(fmt::format("the replay has ended where the recorded run made a {}",
                        kKinds[static_cast<std::size_t>(recorded->kind)]));
}

RecordWriter::RecordWriter(const std::string& path, const std::string& header)
    : path_(path), part_(path + ".part"), sum_(kNoSum) {
  if (access(path.c_str(), F_OK) == 0)
    throw UsageError(fmt::format("{} exists: give --record another name", path));
  const OpenedFile opened = open_to_write(part_, O_WRONLY | O_CREAT | O_EXCL);
  if (opened.descriptor < 0)
    throw UsageError(fmt::format("can't write the record {}: {}", part_, opened.why_not));
  file_ = opened.descriptor;
  write(kMagic.data(), kMagic.size());
  write_run(header.data(), header.size());
}

RecordWriter::~RecordWriter() {
  if (file_ < 0) return;
  close(file_);
  unlink(part_.c_str());
}

void RecordWriter::write(const void* data, std::size_t bytes) {
  sum_ = add_to(sum_, data, bytes);
  write_all(file_, {data, bytes}, "can't write the record " + part_);
}

void RecordWriter::write_run(const void* data, std::size_t bytes) {
  const auto length = static_cast<std::uint32_t>(bytes);
  write(&length, sizeof length);
  write(data, bytes);
}

Witness& RecordWriter::witness(int stream) {
  return witnesses_.try_emplace(stream, [this, stream](ConstBytes bytes) { put(stream, bytes); })
      .first->second;
}

void RecordWriter::put(int stream, ConstBytes chunk) {
  const std::lock_guard hold(mutex_);
  const auto which = static_cast<std::uint8_t>(stream);
  write(&which, sizeof which);
  write_run(chunk.data, chunk.size);
}

void RecordWriter::finish(const std::string& closing) {
  for (auto& [stream, witness] : witnesses_) witness.flush();
  write(&kClosing, sizeof kClosing);
  write_run(closing.data(), closing.size());
  const std::uint64_t sum = sum_;
  write(&sum, sizeof sum);
  if (fsync(file_) != 0 || rename(part_.c_str(), path_.c_str()) != 0)
    throw_errno("can't write the record " + path_);
  close(file_);
  file_ = -1;
}

RecordReader::RecordReader(const std::string& path, const std::string& whose)
    : path_(path), whose_(whose) {
  const OpenedFile opened = open_to_read(path);
  if (opened.descriptor < 0)
    throw UsageError(
        fmt::format("can't read the record {}: {}; a run has one when it has ended well", path,
                    opened.why_not));
  file_ = opened.descriptor;
  bytes_ = opened.bytes;
  try {
    index();
    for (const auto& [stream, chunks] : chunks_) witness(stream);
  } catch (const UsageError&) {
    close(file_);
    throw;
  }
}

RecordReader::~RecordReader() { close(file_); }

ReplayingWitness& RecordReader::witness(int stream) {
  std::unique_ptr<ReplayingWitness>& witness = witnesses_[stream];
  if (witness) return *witness;
  std::string name = stream == kLockStream  ? "lock"
                     : stream == kOwnStream ? "own lane"
                                            : "background lane";
  if (stream > kBackgroundStream) name += fmt::format(" {}", stream - kBackgroundStream);
  const std::vector<Chunk>& chunks = chunks_[stream];
  witness = std::make_unique<ReplayingWitness>(
      fmt::format("{}, {}", whose_, name), [this, &chunks](std::size_t turn) {
        std::vector<std::byte> chunk(turn < chunks.size() ? chunks[turn].bytes : 0);
        if (!chunk.empty()) read(chunks[turn].at, chunk.data(), chunk.size());
        return chunk;
      });
  return *witness;
}

void RecordReader::stop() {
  for (auto& [stream, witness] : witnesses_) witness->stop();
}

void RecordReader::expect_end() {
  for (auto& [stream, witness] : witnesses_) witness->expect_end();
}

void RecordReader::refuse(const std::string& why) const {
  throw UsageError(fmt::format("{} is no record of a run that ended well: {}", path_, why));
}

void RecordReader::read(std::uint64_t at, void* into, std::size_t bytes) const {
  auto* to = static_cast<std::byte*>(into);
  while (bytes > 0) {
    const ssize_t got = pread(file_, to, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) refuse("it can't be read to its end");
    to += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

// A length and as many bytes, which end before `end`; `at` is then behind them.
std::string RecordReader::text(std::uint64_t& at, std::uint64_t end) const {
  std::uint32_t bytes = 0;
  if (end - at < sizeof bytes) refuse("it is cut off");
  read(at, &bytes, sizeof bytes);
  at += sizeof bytes;
  if (bytes > kMostBytes || bytes > end - at) refuse("it is cut off, or damaged");
  std::string text(bytes, ' ');
  read(at, text.data(), bytes);
  at += bytes;
  return text;
}

void RecordReader::index() {
  std::uint64_t sum = kNoSum, at = kMagic.size();
  std::string magic(kMagic.size(), ' ');
  if (bytes_ < kMagic.size() + sizeof sum) refuse("it is too short");
  read(0, magic.data(), magic.size());
  if (magic != kMagic) refuse("it does not begin as one of this version");
  const std::uint64_t end = bytes_ - sizeof sum;
  std::vector<char> buffer(64 << 10);
  for (std::uint64_t done = 0; done < end;) {
    const std::size_t part = std::min<std::uint64_t>(buffer.size(), end - done);
    read(done, buffer.data(), part);
    sum = add_to(sum, buffer.data(), part);
    done += part;
  }
  std::uint64_t told = 0;
  read(end, &told, sizeof told);
  if (told != sum) refuse("it is cut off, or damaged");
  header_ = text(at, end);
  for (;;) {
    if (at == end) refuse("it is cut off");
    std::uint8_t stream = 0;
    read(at++, &stream, sizeof stream);
    if (stream == kClosing) break;
    const std::uint64_t begin = at + sizeof(std::uint32_t);
    const std::string chunk = text(at, end);
    if (chunk.empty()) refuse("it is damaged");
    chunks_[stream].push_back({begin, static_cast<std::uint32_t>(chunk.size())});
  }
  closing_ = text(at, end);
  if (at != end) refuse("it is damaged");
}

}  // namespace lockstep
