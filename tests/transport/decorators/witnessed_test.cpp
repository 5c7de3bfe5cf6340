#include "transport/decorators/witnessed.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "folder.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr Tag kTag{Purpose::gradients, 1};
constexpr Tag kOther{Purpose::gradients, 2};
constexpr int kRanks = 4;
constexpr int kMessages = 25;
constexpr int kStreams = 4;  // with a second background lane

// What happens by chance: each sender dawdles for random lengths, seeded anew each time.
void dawdle(Rng& random) {
  const auto spins = random.below(20'000);
  for (std::uint64_t i = 0; i < spins; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  if (random.below(4) == 0) std::this_thread::yield();
}

// Everything rank 0 sees that may differ from run to run.
using Seen = std::vector<std::uint64_t>;

// Takes what comes in order of arrival; polls, probes, and gives up on the way.
Seen collect(Transport& peers) {
  Seen seen;
  std::uint64_t values[kRanks] = {};
  int left[kRanks] = {};
  std::vector<Pending> open;
  std::vector<int> from;
  const auto post = [&](int rank) {
    open.push_back(peers.recv(rank, kTag, bytes_of(values[rank])));
    from.push_back(rank);
  };
  for (int r = 1; r < kRanks; ++r) {
    left[r] = kMessages;
    post(r);
  }
  while (!open.empty()) {
    std::size_t index = 0;
    if (!peers.test(open[0].request())) {
      std::vector<Request> requests;
      for (const Pending& pending : open) requests.push_back(pending.request());
      index = peers.wait_any(requests, peers.patience()).index;
    }
    const int rank = from[index];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
    seen.insert(seen.end(), {index, values[rank]});
    if (const auto next = peers.probe(kAnyRank, kTag))
      seen.insert(seen.end(), {100 + static_cast<std::uint64_t>(next->from), next->bytes});
    if (--left[rank] > 0) post(rank);
  }
  for (int i = 0; i < 2; ++i) {  // the second may get what the first gave up, if that did not come
    std::uint64_t last = 0;
    Pending late = peers.recv(1, kOther, bytes_of(last));
    seen.push_back(1000 + peers.ending(late, {peers.now()}).arrived());
  }
  seen.push_back(peers.dead_peers().size());
  return seen;
}

// A recorded stream in memory.
class Log {
 public:
  std::unique_ptr<RecordingWitness> recording() {
    return std::make_unique<RecordingWitness>(
        [this](ConstBytes chunk) { chunks_.emplace_back(chunk.data, chunk.data + chunk.size); });
  }
  std::unique_ptr<ReplayingWitness> replaying(const std::string& whose = "rank 0, own lane") const {
    return std::make_unique<ReplayingWitness>(whose, [this](std::size_t turn) {
      return turn < chunks_.size() ? chunks_[turn] : std::vector<std::byte>();
    });
  }
  template <class F>
  void record(F&& f) {
    const auto witness = recording();
    f(*witness);
    witness->flush();
  }

 private:
  std::vector<std::vector<std::byte>> chunks_;
};

// With a witness for each rank, or as it comes.
Seen race(const std::vector<Witness*>& witnesses, std::uint64_t chance) {
  Seen seen;
  run_loopback(kRanks, [&](Rank& r) {
    std::optional<Witnessed> witnessed;
    if (!witnesses.empty()) witnessed.emplace(r.peers, *witnesses[r.rank()]);
    Transport& peers = witnessed ? *witnessed : r.peers;
    if (r.rank() == 0) {
      seen = collect(peers);
    } else {
      Rng random(chance, r.rank(), 0);
      for (int i = 0; i < kMessages; ++i) {
        dawdle(random);
        std::uint64_t mine = static_cast<std::uint64_t>(r.rank()) * 1000 + i;
        peers.wait(peers.send(0, kTag, bytes_of(mine)));
      }
      std::uint64_t last = 0;
      dawdle(random);
      if (r.rank() == 1) peers.wait(peers.send(0, kOther, bytes_of(last)));
    }
  });
  return seen;
}

TEST(Witnessed, ARaceIsReplayedTwentyTimes) {
  std::vector<Log> logs(kRanks);
  std::vector<std::unique_ptr<RecordingWitness>> recorders;
  std::vector<Witness*> recording;
  for (Log& log : logs) recording.push_back(recorders.emplace_back(log.recording()).get());
  const Seen recorded = race(recording, 1);
  for (auto& recorder : recorders) recorder->flush();
  for (std::uint64_t chance = 2; chance < 22; ++chance) {
    std::vector<std::unique_ptr<ReplayingWitness>> replayers;
    std::vector<Witness*> replaying;
    for (Log& log : logs) replaying.push_back(replayers.emplace_back(log.replaying()).get());
    EXPECT_EQ(race(replaying, chance), recorded) << "chance " << chance;
    for (auto& replayer : replayers) EXPECT_NO_THROW(replayer->expect_end());
  }
}

TEST(Witnessed, WithoutARecordTheRaceDiffers) {
  std::set<Seen> outcomes;
  for (std::uint64_t chance = 1; chance < 200 && outcomes.size() < 2; ++chance)
    outcomes.insert(race({}, chance));
  EXPECT_GE(outcomes.size(), 2u) << "the race above would prove nothing";
}

std::string divergence(const Log& log, const Body& body) {
  std::string said;
  run_loopback(2, [&](Rank& r) {
    if (r.rank() != 0) return;
    const auto witness = log.replaying();
    Witnessed peers(r.peers, *witness);
    try {
      RankView replayed(r, {.peers = &peers});
      body(replayed.rank());
      witness->expect_end();
    } catch (const ReplayDiverged& error) {
      said = error.what();
    }
  });
  return said;
}

TEST(Witnessed, AnotherProgramIsAnErrorThatNamesLaneAndChoice) {
  Log log;
  log.record([](Witness& witness) {
    run_loopback(2, [&](Rank& r) {
      if (r.rank() != 0) return;
      Witnessed peers(r.peers, witness);
      int got = 0;
      EXPECT_FALSE(peers.probe(1, kTag));
      peers.recv(1, kTag, bytes_of(got)).give_up();
      EXPECT_THROW(peers.wait(peers.recv(1, kTag, bytes_of(got))), TransportError) << "it left";
    });
  });
  int got = 0;
  EXPECT_EQ(divergence(log,
                       [&](Rank& r) {
                         r.peers.probe(1, kTag);
                         r.peers.dead_peers();
                       }),
            "rank 0, own lane, choice 1: the replay makes a look at the dead where the recorded "
            "run made a wait; replay the same program on the same kind of machine");
  EXPECT_THAT(divergence({}, [&](Rank& r) { r.peers.probe(1, kTag); }),
              HasSubstr("choice 0: the replay makes a probe after the recorded run's last choice"));
  EXPECT_THAT(divergence(log, [&](Rank& r) { r.peers.probe(1, kTag); }),
              HasSubstr("choice 1: the replay has ended where the recorded run made a wait"));
  EXPECT_THAT(divergence(log,
                         [&](Rank& r) {
                           r.peers.probe(1, kTag);
                           r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)));
                         }),
              HasSubstr("message 0 is waited for, and was given up in the recorded run"));
  EXPECT_EQ(divergence(log,
                       [&](Rank& r) {
                         r.peers.probe(1, kTag);
                         r.peers.recv(1, kTag, bytes_of(got)).give_up();
                         EXPECT_THROW(r.peers.wait(r.peers.recv(1, kTag, bytes_of(got))),
                                      TransportError);
                       }),
            "")
      << "the same one replays, and the peer leaves again";
}

// A receive that is given up takes its message with it, or not, as in the recorded run.
TEST(Witnessed, WhatWasLostIsLostAgain) {
  const auto second_of = [](Witness& witness, bool is_there) {
    int got = 0;
    run_loopback(2, [&](Rank& r) {
      int word = 0;
      if (r.rank() == 1) {
        for (int i : {1, 2}) r.peers.wait(r.peers.send(0, kTag, bytes_of(i)));
        r.peers.wait(r.peers.send(0, kOther, bytes_of(word)));
        return;
      }
      if (is_there) r.peers.wait(r.peers.recv(1, kOther, bytes_of(word)));
      Witnessed peers(r.peers, witness);
      Pending lost = peers.recv(1, kTag, bytes_of(got));
      if (is_there) (void)r.peers.probe(1, kOther);  // lets the message land
      lost.give_up();
      peers.wait(peers.recv(1, kTag, bytes_of(got)));
    });
    return got;
  };
  Log log;
  log.record([&](Witness& witness) { ASSERT_EQ(second_of(witness, true), 2); });
  for (const bool is_there : {true, false}) EXPECT_EQ(second_of(*log.replaying(), is_there), 2);
}

// A send that is given up reaches its peer, or not, as in the recorded run.
TEST(Witnessed, WhatReachedItsPeerReachesItAgain) {
  for (const bool reached : {true, false}) {
    Log log;
    log.record([&](Witness& witness) { witness.note_given_up(0, reached); });
    int got = 0;
    run_loopback(2, [&](Rank& r) {
      int word = 1, last = 2;
      if (r.rank() == 1) {
        r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
        if (reached) r.peers.wait(r.peers.recv(0, kTag, bytes_of(word)));
        return;
      }
      const auto witness = log.replaying();
      Witnessed peers(r.peers, *witness);
      Pending send = peers.send(1, kTag, bytes_of(word));
      EXPECT_EQ(peers.give_up(send.request()), !reached);
      send.ended();
      r.peers.wait(r.peers.send(1, kTag, bytes_of(last)));
    });
    EXPECT_EQ(got, reached ? 1 : 2);
  }
}

// The rank and its background take a lock in turns that chance decides.
std::vector<int> lock_race(Witness& witness, std::uint64_t chance) {
  std::vector<int> order;
  run_loopback(1, [&](Rank& r) {
    const auto own = std::this_thread::get_id();
    WitnessedLock lock(r.lock, witness, [&] { return std::this_thread::get_id() != own; });
    const auto take = [&](int who) {
      Rng random(chance, who, 1);
      for (int i = 0; i < 50; ++i) {
        dawdle(random);
        std::lock_guard guard(lock);
        order.push_back(who);
      }
    };
    const auto job = r.background.post([&](Transport&) { take(1); });
    std::exception_ptr failure;
    try {
      take(0);
    } catch (const ReplayDiverged&) {
      failure = std::current_exception();
    }
    r.background.wait(job);  // which uses this function's lock
    if (failure) std::rethrow_exception(failure);
  });
  return order;
}

TEST(Witnessed, TheOrderOfALockIsReplayed) {
  Log log;
  std::vector<int> recorded;
  log.record([&](Witness& witness) { recorded = lock_race(witness, 1); });
  for (std::uint64_t chance = 2; chance < 12; ++chance) {
    const auto replaying = log.replaying();
    EXPECT_EQ(lock_race(*replaying, chance), recorded);
    EXPECT_NO_THROW(replaying->expect_end());
  }
}

TEST(Witnessed, ALockTakenOnceMoreDiverges) {
  EXPECT_THROW(lock_race(*Log().replaying(), 1), ReplayDiverged);
}

TEST(Witnessed, ALockWhoseNextOwnerDoesNotComeDiverges) {
  Log log;
  log.record([](Witness& witness) { witness.note(Witness::Kind::lock, {1}); });
  run_loopback(1, [&](Rank& r) {
    const auto witness = log.replaying("rank 3, lock");
    WitnessedLock lock(
        r.lock, *witness, [] { return 0; }, 0.01);
    try {
      lock.lock();
      ADD_FAILURE() << "it was the background's turn";
    } catch (const ReplayDiverged& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3, lock, choice 0: lane 0 wants it, and lane 1, "
                                          "whose turn it is, does not come"));
    }
  });
}

// The witnesses of a rank, in a file.
struct InFile : WitnessedRank::Record {
  InFile(const std::string& path, bool replays) {
    if (replays)
      reader.emplace(path, "rank");
    else
      writer.emplace(path, "header");
  }
  Witness& witness(int stream) override {
    if (writer) return writer->witness(stream);
    return reader->witness(stream);
  }
  void stop() override {
    if (reader) reader->stop();
  }
  void finish() {
    if (writer) writer->finish("closing");
    if (reader) reader->expect_end();
  }
  std::optional<RecordWriter> writer;
  std::optional<RecordReader> reader;
};

// Two ranks whose backgrounds pass numbers to each other and hear bells meanwhile. What a number
// makes of `x` depends on when it comes, when the bell is heard, when the rank's own thread takes
// the lock, and what that decides.
class WholeRank {
 public:
  explicit WholeRank(Rank& rank) : rank_(rank) {}

  // `more`: the background makes so many more choices at its end.
  std::vector<double> run(std::uint64_t chance, int more) {
    const auto job =
        rank_.background.post([&](Transport& lane) { pass_numbers(lane, chance, more); });
    Rng random(chance, rank_.rank(), 3);
    for (int i = 0; i < kMessages; ++i) {
      dawdle(random);
      rank_.background.ring();
      if (!rank_.clock.decided(random.below(2) == 0)) continue;
      const std::lock_guard hold(rank_.lock);
      x_ = x_ / 3 + i;
      seen_.push_back(x_);
    }
    rank_.background.wait(job);
    const std::lock_guard hold(rank_.lock);
    seen_.push_back(x_);
    return seen_;
  }

 private:
  void pass_numbers(Transport& lane, std::uint64_t chance, int more) {
    Rng random(chance, lane.rank(), 4);
    const int peer = 1 - lane.rank();
    Pending bell = lane.bell();
    for (int i = 0; i < kMessages; ++i) {
      double sent = i, came = 0;
      Pending next = lane.recv(peer, kTag, bytes_of(came));
      dawdle(random);
      Pending send = lane.send(peer, kTag, bytes_of(sent));
      for (bool is_here = false; !is_here;) {
        const Request open[] = {bell.request(), next.request()};
        is_here = lane.wait_any(open, lane.patience()).index == 1;
        if (!is_here) bell = lane.bell();
        const std::lock_guard hold(rank_.lock);
        x_ = is_here ? x_ + came : x_ * 1.5;
      }
      next.ended();
      lane.wait(send);
    }
    for (; more > 0; --more) (void)lane.probe(peer, kTag);
  }

  Rank& rank_;
  double x_ = 1;
  std::vector<double> seen_;
};

using BothSeen = std::vector<std::vector<double>>;

BothSeen race_of_whole_ranks(const testing::Folder& folder, bool replays, std::uint64_t chance,
                             int more = 0) {
  BothSeen seen(2);
  run_loopback(2, [&](Rank& rank) {
    const auto record = std::make_shared<InFile>(folder / std::to_string(rank.rank()), replays);
    WitnessedRank witnessed(rank, record);
    WholeRank whole(witnessed.rank());
    std::exception_ptr failure;
    try {
      seen[rank.rank()] = whole.run(chance, more);
      record->finish();
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    if (!failure) return;
    witnessed.fail(failure);
    std::rethrow_exception(failure);
  });
  return seen;
}

TEST(WitnessedRank, AllThatARankDoesIsReplayedFromFiles) {
  const testing::Folder folder;
  const BothSeen recorded = race_of_whole_ranks(folder, false, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "0.part"));
  for (std::uint64_t chance = 2; chance < 12; ++chance)
    EXPECT_EQ(race_of_whole_ranks(folder, true, chance), recorded) << "chance " << chance;
}

TEST(WitnessedRank, ADivergenceBesideTheRankIsNamed) {
  const testing::Folder folder;
  race_of_whole_ranks(folder, false, 1);
  try {
    race_of_whole_ranks(folder, true, 2, 1);
    ADD_FAILURE() << "it made one choice more";
  } catch (const ReplayDiverged& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank, background lane, choice "));
    EXPECT_THAT(error.what(), HasSubstr("makes a probe after the recorded run's last choice"));
  }
}

// Whatever the rank waits for in a replay: a turn that never comes, since the other thread failed.
TEST(WitnessedRank, AFailedJobEndsTheWaitForTheLock) {
  const testing::Folder folder;
  RecordWriter writer(folder / "0", "");
  writer.witness(kLockStream).note(Witness::Kind::lock, {1});
  writer.finish("");
  run_loopback(1, [&](Rank& rank) {
    WitnessedRank witnessed(rank, std::make_shared<InFile>(folder / "0", true));
    witnessed.rank().background.post([](Transport&) { throw InternalError("planted"); });
    EXPECT_THROW(witnessed.rank().lock.lock(), InternalError);
  });
}

std::string bytes_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_small_record(const std::filesystem::path& path) {
  RecordWriter writer(path, "{\"header\":1}");
  for (int s = 0; s < kStreams; ++s)
    for (std::uint64_t i = 0; i < 20; ++i)
      writer.witness(s).note(Witness::Kind::wait, {i + 1, 0, i});
  writer.finish("closing");
}

TEST(RecordFile, ComesBack) {
  const testing::Folder folder;
  write_small_record(folder / "record");
  RecordReader reader(folder / "record", "rank 2");
  EXPECT_EQ(reader.header(), "{\"header\":1}");
  EXPECT_EQ(reader.closing(), "closing");
  for (int s = 0; s < kStreams; ++s) {
    ReplayingWitness& witness = reader.witness(s);
    for (std::uint64_t i = 0; i < 20; ++i)
      EXPECT_EQ(witness.next(Witness::Kind::wait), (Witness::Words{i + 1, 0, i}));
    witness.expect_end();
  }
}

// A long run's record takes as much memory as a short one's: it goes to the file as it comes.
TEST(RecordFile, IsWrittenAndReadPieceByPiece) {
  const testing::Folder folder;
  constexpr std::uint64_t kMany = 300'000;
  {
    RecordWriter writer(folder / "record", "");
    for (std::uint64_t i = 0; i < kMany; ++i)
      writer.witness(kLockStream).note(Witness::Kind::lock, {i});
    EXPECT_GT(std::filesystem::file_size(folder / "record.part"), kMany) << "while it is written";
    writer.finish("");
  }
  RecordReader reader(folder / "record", "");
  for (std::uint64_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(reader.witness(kLockStream).peek(Witness::Kind::lock), i);
    reader.witness(kLockStream).next(Witness::Kind::lock);
  }
}

TEST(RecordFile, OfARunThatDiesIsNone) {
  const testing::Folder folder;
  {
    RecordWriter writer(folder / "record", "");
    EXPECT_TRUE(std::filesystem::exists(folder / "record.part"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(RecordReader(folder / "record", ""), UsageError);
}

TEST(RecordFile, IsNotWrittenOver) {
  const testing::Folder folder;
  write_small_record(folder / "record");
  EXPECT_THROW(write_small_record(folder / "record"), UsageError);
  RecordReader(folder / "record", "");
}

TEST(RecordFile, CutOrAlteredAnywhereIsRefused) {
  const testing::Folder folder;
  write_small_record(folder / "record");
  const std::string whole = bytes_in(folder / "record");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    write_bytes(folder / "bad", whole.substr(0, i));
    EXPECT_THROW(RecordReader(folder / "bad", ""), UsageError) << "cut at " << i;
    std::string altered = whole;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    write_bytes(folder / "bad", altered);
    EXPECT_THROW(RecordReader(folder / "bad", ""), UsageError) << "altered at " << i;
  }
  write_bytes(folder / "bad", whole + "x");
  EXPECT_THROW(RecordReader(folder / "bad", ""), UsageError);
}

// As the file's checksum, which a hostile one has right.
std::string with_sum(std::string bytes) {
  std::uint64_t sum = 14695981039346656037ull;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return bytes;
}

// Hostile files are refused or read, whatever is in them, and take no more memory than they are
// long.
TEST(RecordFile, AnyBytesWithARightChecksumDoNoHarm) {
  const testing::Folder folder;
  write_small_record(folder / "record");
  const std::string whole = bytes_in(folder / "record");
  const std::string body = whole.substr(0, whole.size() - sizeof(std::uint64_t));
  Rng random(1, 0, 0);
  int refused = 0;
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes = body;
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n)
      bytes[18 + random.below(bytes.size() - 18)] = static_cast<char>(random.below(256));
    if (random.below(4) == 0) bytes.resize(random.below(bytes.size()));
    write_bytes(folder / "bad", with_sum(bytes));
    try {
      RecordReader reader(folder / "bad", "");
      for (int s = 0; s < kStreams; ++s)
        for (int n = 0; n < 100; ++n) reader.witness(s).next(Witness::Kind::wait);
    } catch (const UsageError&) {
      ++refused;
    } catch (const ReplayDiverged&) {
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(RecordFile, IsNoLinkFolderOrFifo) {
  const testing::Folder folder;
  EXPECT_THROW(RecordReader(folder.text(), ""), UsageError);
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THROW(RecordReader(folder / "fifo", ""), UsageError);
}

}  // namespace
}  // namespace lockstep
