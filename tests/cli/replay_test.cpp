// `lockstep train --record` and `--replay`: runs on real processes whose workers go apart, repeated
// to the bit, and records that don't fit.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/mistake.h"
#include "cli/small_training.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// What a run came to: the SHA-256 of its model and, if it was checkpointed at its end, of the
// weights and of all else that each rank had.
using Bits = std::map<std::string, std::string>;

class Replay : public SmallTraining {
 protected:
  Bits bits_of(const std::string& arguments) const {
    const std::string out = at("run-" + std::to_string(++runs_));
    const Outcome outcome = lockstep("train " + arguments + " --json --out " + out);
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.err;
    if (outcome.status != 0) return {};
    Bits bits{{"model", outcome.json().at(0).at("model_sha256")}};
    if (!fs::exists(out + "/checkpoints")) return bits;
    for (const auto& folder : fs::directory_iterator(out + "/checkpoints")) {
      const auto manifest = read(folder.path().string() + "/manifest.json");
      for (const auto& [name, file] : manifest.at("files").items())
        if (!name.ends_with("progress")) bits[name] = file.at("sha256");  // which has times
    }
    return bits;
  }
  // Runs it, and replays it twice: as it comes, and with messages of either rank that come late, so
  // that ranks take their turns at other times than in the run.
  void expect_repeated(const std::string& arguments) const {
    const Bits recorded = bits_of(kSmall + arguments + " --record " + at("record"));
    const std::string replay = "--replay " + at("record");
    EXPECT_EQ(bits_of(replay), recorded);
    EXPECT_EQ(bits_of(replay + " --fault delay:rank=0,seconds=2ms,probability=0.2"
                               " --fault delay:rank=1,seconds=5ms,probability=0.1"),
              recorded);
  }

 private:
  mutable int runs_ = 0;
};

struct Case {
  std::string strategy;
  int workers;
  std::string more = "";
};

class EveryReplay : public Replay, public ::testing::WithParamInterface<Case> {};

TEST_P(EveryReplay, EndsWithTheSameBits) {
  const auto& [strategy, workers, more] = GetParam();
  expect_repeated("--strategy " + strategy + " -n " + std::to_string(workers) +
                  " --steps 40 --checkpoint-every 40 " + more);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, EveryReplay,
    ::testing::Values(Case{"asp", 2}, Case{"asp", 3}, Case{"ssp", 2}, Case{"ssp", 3},
                      Case{"downpour:push=2,fetch=3", 2}, Case{"downpour:push=2,fetch=3", 3},
                      Case{"easgd", 2}, Case{"easgd", 3}, Case{"gossip:p=0.5", 2},
                      Case{"gossip:p=0.5", 3}, Case{"ad-psgd", 2}, Case{"ad-psgd", 3},
                      // Scores on the way, servers that are several, a slow network, an open end.
                      Case{"ssp:staleness=2", 2, "--servers 2 --evaluate-every 5"},
                      Case{"ad-psgd", 3, "--evaluate-every 4 --audit"},
                      Case{"asp", 2, "--transport ucx --evaluate-every 10"},
                      Case{"gossip:p=0.5", 3, "--transport ucx"},
                      Case{"ad-psgd", 3, "--transport loopback"},
                      // Plans that come of times.
                      Case{"asp", 2, "--overlap merged"}, Case{"ssp", 2, "--overlap merged"}),
    [](const auto& info) {
      std::string name = info.param.strategy + std::to_string(info.param.workers) + info.param.more;
      std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
      return name;
    });

TEST_F(Replay, OfARunThatEndsByTheClock) {
  expect_repeated("--strategy gossip:p=0.5 -n 2 --seconds 0.05");
}

TEST_F(Replay, OfARunThatEndsBySamples) { expect_repeated("--strategy asp -n 2 --samples 1500"); }

TEST_F(Replay, WithoutARecordRunsDiffer) {
  std::set<Bits> seen;
  for (int i = 0; i < 8 && seen.size() < 2; ++i)
    seen.insert(bits_of(std::string(kSmall) + "--strategy asp -n 3 --steps 40"));
  EXPECT_EQ(seen.size(), 2u) << "the replays above would prove nothing";
}

class RecordMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(RecordMistake, IsOneSentenceStatus2AndNothingWritten) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string record = folder.path() + "/record";
  expect_refused(lockstep(std::string("train ") + kSmall + GetParam().arguments + " --record " +
                          record + " --out " + folder.path() + "/run"),
                 GetParam());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, RecordMistake,
    ::testing::Values(
        Mistake{"--strategy asp --cluster sim:step=1ms", "repeated by its seed alone"},
        Mistake{"", "with all-reduce they keep in step, and nothing depends on arrival"},
        Mistake{"--strategy hogwild", "write to one memory in an order that nobody sees"},
        Mistake{"--strategy epoch-average", "gives tasks up by the clock"},
        Mistake{"--strategy gossip --fault kill:rank=1,after=100",
                "a rank that dies leaves no record"},
        Mistake{"--strategy gossip --replay /nowhere", "can't read the record /nowhere/rank-0"}));

std::string text_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The same bytes but for the part from `from` to `to`, with the checksum that they need.
std::string without(const std::string& record, std::size_t from, std::size_t to) {
  std::string rest = record.substr(0, from) + record.substr(to);
  rest.resize(rest.size() - sizeof(std::uint64_t));
  std::uint64_t sum = 14695981039346656037ull;
  for (const char c : rest) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  rest.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return rest;
}

// Where the first chunk of that stream is.
std::pair<std::size_t, std::size_t> chunk_of(const std::string& record, int stream) {
  const auto length_at = [&](std::size_t at) {
    std::uint32_t length = 0;
    std::memcpy(&length, record.data() + at, sizeof length);
    return sizeof length + length;
  };
  std::size_t at = std::string("lockstep record 1\n").size();
  for (at += length_at(at); record[at] != stream;) at += 1 + length_at(at + 1);
  return {at, at + 1 + length_at(at + 1)};
}

class Recorded : public Replay {
 protected:
  void SetUp() override { bits_ = record_to("record"); }

  Bits record_to(const std::string& name) const {
    return bits_of(std::string(kSmall) + "--strategy gossip:p=0.5 -n 2 --record " + at(name));
  }

  std::string part(int rank) const { return at("record/rank-" + std::to_string(rank)); }
  // Status 2, one sentence, and no folder of a run.
  void expect_refusal(const std::string& arguments, const std::string& sentence) const {
    expect_refused(
        lockstep("train --replay " + at("record") + " --out " + at("refused") + " " + arguments),
        {arguments, sentence});
    EXPECT_FALSE(fs::exists(at("refused")));
  }
  void expect_failure(const std::string& sentence) const {
    const Outcome outcome = lockstep("train --replay " + at("record") + " --out " + at("failed"));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
    EXPECT_THAT(read(at("failed/run.json"))["status"], "failed");
    fs::remove_all(at("failed"));
  }

  Bits bits_;
};

TEST_F(Recorded, IsReplayedWithoutAnotherFlag) {
  const Outcome outcome =
      lockstep("train --json --replay " + at("record") + " --out " + at("again"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.json().at(0).at("model_sha256"), bits_.at("model"));
  EXPECT_TRUE(fs::exists(at("again/model.pt")));
}

TEST_F(Recorded, FitsNoOtherRun) {
  expect_refusal("--seed 2", "is the record of a run with seed 1, so it can't be replayed with 2");
  expect_refusal("--strategy ad-psgd", "is the record of a run with strategy \"gossip:p=0.5\"");
  expect_refusal("-n 3", "is the record of a run with workers 2");
  expect_refusal("--batch 10", "is the record of a run with batch 20");
  expect_refusal("--evaluate-every 7", "is the record of a run with evaluate_every 0");
  expect_refusal("--record " + at("second"), "what is replayed is recorded already");
  expect_refusal("--fault kill:rank=1,after=9", "a rank that dies leaves no record");
  expect_refused(lockstep("train --strategy gossip --record " + at("record")),
                 {"", "exists; give another name"});
}

TEST_F(Recorded, DamagedIsRefused) {
  const std::string whole = text_in(part(1));
  write(part(1), whole.substr(0, whole.size() / 2));
  expect_refusal("", "rank-1 is no record of a run that ended well: it is cut off, or damaged");
  std::string altered = whole;
  altered[altered.size() / 2] ^= 1;
  write(part(1), altered);
  expect_refusal("", "rank-1 is no record of a run that ended well: it is cut off, or damaged");
  write(part(1), "hello");
  expect_refusal("", "rank-1 is no record of a run that ended well: it is too short");
  write(part(1), text_in(part(0)));
  expect_refusal("", "rank-1 is the record of rank 0");
  fs::remove(part(1));
  expect_refusal("", "rank-1: No such file or directory; a run has one when it has ended well");
  record_to("other");
  fs::copy(at("other/rank-1"), part(1));
  expect_refusal("", "rank-1 is of another run than");
}

TEST_F(Recorded, ADivergenceNamesRankLaneAndChoice) {
  const std::string whole = text_in(part(1));
  const auto [from, to] = chunk_of(whole, 2);
  write(part(1), without(whole, from, to));
  expect_failure("rank 1, background lane, choice 0: the replay makes a");
  // All is as it was, but for what came out.
  write(part(1), whole);
  std::string first = text_in(part(0));
  const std::size_t sum = first.rfind("model_sha256") + std::string("model_sha256\":\"").size();
  first[sum] = first[sum] == '0' ? '1' : '0';
  write(part(0), without(first, 0, 0));
  expect_failure("the replay made the same choices and came to another model");
}

// A run that is killed has no record, and says so when one asks for it.
TEST_F(Replay, ARunThatFailsLeavesNoRecord) {
  const Outcome outcome = train("--strategy gossip -n 2 --optimizer sgd:lr=1e30 --record " +
                                at("record") + " --out " + at("run"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_FALSE(fs::exists(at("record")));
}

}  // namespace
}  // namespace lockstep
