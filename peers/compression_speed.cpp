// What compressing a bucket of gradients costs beside LibTorch's own operations: one core, in turns
// within one process, so that the ratio holds on a busy machine.
//
//   compression_speed [MIB [REPEATS [kept|plain]]]      (25 9 kept)
//
// kept: LibTorch's temporaries keep their memory from one operation to the next, as they do in our
// trainings (replica/malloc.h). plain: malloc is as LibTorch finds it in any other program, and
// gives long temporaries back each time, so that every page of the next one is faulted in.
//
// A line of JSON for each compressor: milliseconds of CPU time to encode, to decode and to add
// (median, min and max over the repeats), the same of LibTorch where it has operations that do as
// much, and how many times longer those take. `memcpy` copies the bucket: nothing that reads it all
// takes much less. `read` adds the bucket up: no encoder takes less.
#include <fmt/format.h>
#include <time.h>
#include <torch/torch.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/contest.h"
#include "compression/kernels.h"
#include "compression/registry.h"
#include "replica/malloc.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTimesEach = 3;  // in a turn

// Of this thread, which alone works: others that want the core too do not count.
double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// For one call, the best of a turn: what lies above it is the machine's.
template <class Work>
double turn_ms(const Work& work) {
  double best = 1e9;
  for (int i = 0; i < kTimesEach; ++i) {
    const double start = cpu_ms();
    work();
    best = std::min(best, cpu_ms() - start);
  }
  return best;
}

Json spread_of(const bench::Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

// Things to be done, each by name; all are done once in each repeat.
struct Contest {
  struct Entry {
    std::string name;
    std::function<void()> work;
    std::vector<double> times_ms = {};
  };
  std::vector<Entry> entries;

  void run(int repeats) {
    for (int r = -1; r < repeats; ++r)  // the first is for warming up
      for (Entry& e : entries)
        if (const double ms = turn_ms(e.work); r >= 0) e.times_ms.push_back(ms);
  }
  Json json() const {
    Json all = Json::object();
    for (const Entry& e : entries) all[e.name + "_ms"] = spread_of(bench::spread(e.times_ms));
    for (const Entry& ours : entries)
      for (const Entry& theirs : entries)
        if (theirs.name == "libtorch_" + ours.name)
          all[ours.name + "_ratio"] = spread_of(bench::ratio(theirs.times_ms, ours.times_ms));
    return all;
  }
};

// The shortest way to the same with LibTorch's operations.
struct Peer {
  std::function<void()> encode, decode;
};

class Peers {
 public:
  explicit Peers(torch::Tensor x)
      : x_(x),
        back_(torch::empty_like(x)),
        half_(torch::empty_like(x, torch::kHalf)),
        bfloat_(torch::empty_like(x, torch::kBFloat16)) {}

  Peer of(const std::string& spec) {
    if (spec == "fp16") return {[this] { half_.copy_(x_); }, [this] { back_.copy_(half_); }};
    if (spec == "bf16") return {[this] { bfloat_.copy_(x_); }, [this] { back_.copy_(bfloat_); }};
    if (spec == "int8") return {[this] { int8(); }, [this] { back_ = (codes_ * scale_).view(-1); }};
    if (spec == "sign") return {[this] { sign(); }, {}};
    if (spec == "topk") return {[this] { topk(); }, {}};
    return {};
  }

 private:
  void int8() {
    const auto rows = x_.view({-1, 512});
    scale_ = rows.abs().amax(1, true) / 127;
    codes_ = (rows / scale_).round().clamp(-127, 127).to(torch::kInt8);
  }
  void sign() {
    static const auto bits = torch::tensor({1, 2, 4, 8, 16, 32, 64, 128}, torch::kUInt8);
    scale_ = x_.abs().mean();
    codes_ = ((x_ >= 0).view({-1, 8}).to(torch::kUInt8) * bits).sum(1, false, torch::kUInt8);
  }
  void topk() {
    const auto [values, indices] = x_.abs().topk(x_.numel() / 100, 0, true, false);
    codes_ = x_.index_select(0, indices);
    scale_ = indices.to(torch::kInt);
  }

  torch::Tensor x_, back_, half_, bfloat_, scale_, codes_;
};

// The least that reading takes.
double sum_of_all(Values numbers) {
  return code_kernels().sum_of_magnitudes(reinterpret_cast<const float*>(numbers.bytes().data),
                                          numbers.count());
}

Json measure(const std::string& spec, torch::Tensor x, Peers& peers, int repeats,
             const std::string& malloc) {
  const Compression c = compression(spec);
  const auto code = c.make();
  const auto count = static_cast<std::size_t>(x.numel());
  const Values numbers(x.data_ptr(), count, Type::fp32);
  // In tensors, which are aligned as gradients and windows are.
  const torch::Tensor decoded = torch::zeros_like(x), memory = torch::zeros_like(x);
  const torch::Tensor message =
      torch::zeros({static_cast<std::int64_t>(code->most_bytes(count) / 4 + 1)}, torch::kInt);
  const Bytes room{static_cast<std::byte*>(message.data_ptr()), message.nbytes()};
  std::size_t bytes = 0;
  Draw draw;
  Contest contest;
  contest.entries.push_back(
      {"memcpy", [&] { std::memcpy(decoded.data_ptr(), x.data_ptr(), 4 * count); }});
  contest.entries.push_back({"read", [&] { sum_of_all(numbers); }});
  contest.entries.push_back({"encode", [&] {
                               ++draw.step;
                               bytes = code->encode(numbers, room, draw);
                             }});
  if (const Peer peer = peers.of(spec); peer.encode)
    contest.entries.push_back({"libtorch_encode", peer.encode});
  const Values out(decoded.data_ptr(), count, Type::fp32);
  contest.entries.push_back({"decode", [&] { code->decode({room.data, bytes}, draw, out); }});
  if (const Peer peer = peers.of(spec); peer.decode)
    contest.entries.push_back({"libtorch_decode", peer.decode});
  contest.entries.push_back({"add", [&] { code->add({room.data, bytes}, draw, 0.5f, out); }});
  std::unique_ptr<Compressor> remembering;
  const Values memories[] = {Values(memory.data_ptr(), count, Type::fp32)};
  if (c.memories == 1) {
    remembering = c.remember(*code, memories, {});
    contest.entries.push_back({"encode_with_feedback", [&] {
                                 ++draw.step;
                                 remembering->encode(numbers, room, draw);
                               }});
  }
  contest.run(repeats);
  Json line = {
      {"compressor", spec}, {"malloc", malloc}, {"mib", 4 * count >> 20}, {"bytes", bytes}};
  line.update(contest.json());
  return line;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const int mib = argc > 1 ? std::atoi(argv[1]) : 25, repeats = argc > 2 ? std::atoi(argv[2]) : 9;
  const std::string memory = argc > 3 ? argv[3] : "kept";
  if (memory != "kept" && memory != "plain") {
    fmt::print(stderr, "compression_speed: the third argument is kept or plain, not {}\n", memory);
    return 2;
  }
  if (memory == "kept") keep_freed_memory();
  torch::set_num_threads(1);
  torch::NoGradGuard no_gradients;
  const torch::Tensor x = torch::randn({mib * (1 << 18)}) * 1e-3;
  Peers peers(x);
  for (const CompressorRow& row : compressors())
    if (compression(row.name).make && row.name != "dgc")
      fmt::print("{}\n", measure(std::string(row.name), x, peers, repeats, memory).dump());
}
