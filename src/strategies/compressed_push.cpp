#include "strategies/compressed_push.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "collectives/scratch.h"
#include "strategies/push_code.h"

namespace lockstep {
namespace {

class CompressedPush final : public PushCode {
 public:
  CompressedPush(const Crew& crew, const PushRule& rule)
      : crew_(crew), rule_(rule), code_(rule.compression.make()) {
    const Compression& c = rule_.compression;
    if (rule_.notes_losses &&
        (!c.is_linear(rule_.optimiser) || (c.needs_sgd && rule_.optimiser.nesterov)))
      throw UsageError(
          "the audit follows sums, and a gradient that is clipped, or that has weight decay or "
          "Nesterov's momentum added before it is pushed, is none: leave these out, or the audit");
    if (c.needs_sgd) names_.emplace_back("momentum of messages");
    if (c.memories > 0 || (rule_.notes_losses && !c.lossless)) names_.emplace_back("residual");
  }

  void begin(Values numbers, std::span<const Parameter>) override {
    memories_.clear();
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const Bytes memory = memories_.emplace_back(numbers, numbers.count()).values().bytes();
      if (!memory.hollow() && memory.size > 0) std::memset(memory.data, 0, memory.size);
    }
  }

  ConstBytes encode(Values numbers, std::size_t first, std::vector<std::byte>& memory) override {
    const double start = crew_.rank.clock.now();
    Part& part = part_at(first, numbers.count());
    const Draw draw = draw_of(part.pushes++, first);
    const std::size_t most = most_bytes(numbers);
    Bytes message{nullptr, most};
    if (!numbers.is_hollow()) {
      memory.resize(most);
      message.data = memory.data();
    }
    if (message.data && head() > 0) std::memcpy(message.data, &draw.step, head());
    Compressor& code = part.code ? *part.code : *code_;
    const std::size_t bytes = code.encode(numbers, message.part(head(), most - head()), draw);
    code_->decode(message.part(head(), bytes), draw, numbers);
    crew_.rank.clock.charge(crew_.coding_cost.encode_s_per_number *
                            static_cast<double>(numbers.count()));
    coding_.encode_s += crew_.rank.clock.now() - start;
    coding_.encoded += numbers.count();
    coding_.plain_bytes += numbers.bytes().size;
    coding_.sent_bytes += head() + bytes;
    return message.part(0, head() + bytes);
  }

  std::size_t most_bytes(Values numbers) const override {
    return head() + code_->most_bytes(numbers.count());
  }

  // What chooses among numbers, or has one scale for all of them, does it over the whole.
  bool goes_in_pieces() const override {
    const Averaging how = rule_.compression.averaging;
    return how == Averaging::additive || how == Averaging::two_shot;
  }

  bool decode(ConstBytes message, std::size_t first, Values into) const override {
    if (message.size < head() || message.size > most_bytes(into)) return false;
    const double start = crew_.rank.clock.now();
    std::uint64_t push = 0;
    if (!message.hollow() && head() > 0) std::memcpy(&push, message.data, head());
    try {
      code_->decode(message.part(head(), message.size - head()), draw_of(push, first), into);
    } catch (const TransportError&) {
      return false;
    }
    crew_.rank.clock.charge(crew_.coding_cost.decode_s_per_number *
                            static_cast<double>(into.count()));
    coding_.decode_s += crew_.rank.clock.now() - start;
    coding_.decoded += into.count();
    return true;
  }

  std::vector<OfMemory> stated() const override {
    std::vector<OfMemory> all;
    if (rule_.compression.needs_sgd) all.push_back({0, 0, rule_.optimiser.momentum, 0});
    if (!names_.empty()) all.push_back({0, names_.size() - 1, feeds_back() ? 1.0 : 0.0, -1});
    return all;
  }
  Holds holds() const override {
    if (!names_.empty() || rule_.compression.lossless) return {};
    // Numbers that are rounded at random are off by less than twice what others are at most.
    return {Holds::How::within, (rule_.compression.draws ? 2 : 1) * most_error(),
            rule_.compression.most_error_of_each};
  }
  Holds holds_of_memory(std::size_t which) const override {
    const Compression& c = rule_.compression;
    if (which + 1 < names_.size()) return {Holds::How::not_stated};
    // Servers, which have no memories, state the same.
    constexpr std::size_t kMany = std::numeric_limits<std::uint32_t>::max();
    const double most = c.most_error(kMany);
    if (!std::isfinite(most)) return {Holds::How::not_stated};
    return {Holds::How::shrunk, most, c.most_error_of_each};
  }

  std::vector<Kept> memories() override {
    std::vector<Kept> all;
    for (std::size_t k = 0; k < names_.size(); ++k)
      all.push_back({names_[k],
                     memories_.empty() ? Values(nullptr, 0, Type::fp32) : memories_[k].values(),
                     false, 0, feeds_back()});
    return all;
  }
  // How often it has pushed.
  std::string state() const override {
    std::uint64_t pushes = before_;
    for (const auto& [first, part] : parts_) pushes = std::max(pushes, part.pushes);
    return pushes == 0 ? "" : fmt::format("{}", pushes);
  }
  void restore(const std::string& state) override {
    const char* const end = state.data() + state.size();
    before_ = 0;
    if (state.empty()) return;
    const auto read = std::from_chars(state.data(), end, before_);
    if (read.ec != std::errc() || read.ptr != end)
      throw UsageError(fmt::format(
          "'{}' is saved as how often a worker has pushed, and is no number: the state is damaged",
          state));
  }
  Coding coding() const override { return coding_; }

 private:
  // A part of each push, which is a message of its own.
  struct Part {
    std::unique_ptr<Compressor> code;  // with the memories of these numbers; none: it has none
    std::uint64_t pushes = 0;
  };
  Part& part_at(std::size_t first, std::size_t count) {
    const auto [found, is_new] = parts_.try_emplace({first, count});
    if (is_new) {
      std::vector<Values> own;
      for (const Scratch& memory : memories_) own.push_back(memory.values({first, count}));
      OptimiserTerms optimiser = rule_.optimiser;
      if (optimiser.weights.count() > 0) optimiser.weights = optimiser.weights.part({first, count});
      found->second = {remembering(rule_.compression, *code_, own, optimiser), before_};
    }
    return found->second;
  }

  // Of numbers of any count. Servers, which have no memories, state the same.
  double most_error() const {
    constexpr std::size_t kMany = std::numeric_limits<std::uint32_t>::max();
    const auto& squared = rule_.compression.squared_error;
    return std::sqrt(std::max(squared(1), squared(kMany)));
  }
  bool feeds_back() const { return rule_.compression.memories > 0; }
  // Where a server must draw what the worker drew, a message begins with which push it is.
  std::size_t head() const {
    return rule_.compression.averaging == Averaging::seeded ? sizeof(std::uint64_t) : 0;
  }
  Draw draw_of(std::uint64_t push, std::size_t first) const {
    return {crew_.rank.seed, crew_.rank.rank(), push, static_cast<std::uint32_t>(first)};
  }

  const Crew crew_;
  const PushRule rule_;
  const std::unique_ptr<Compressor> code_;
  std::vector<std::string> names_;  // of memories; the residual is the last
  std::vector<Scratch> memories_;
  std::map<std::pair<std::size_t, std::size_t>, Part> parts_;  // by the first number and how many
  std::uint64_t before_ = 0;                                   // pushes before a resume
  mutable Coding coding_;
};

}  // namespace

MakePushCode compressed_pushes(PushRule rule) {
  return [rule = std::move(rule)](const Crew& crew) {
    return std::make_unique<CompressedPush>(crew, rule);
  };
}

}  // namespace lockstep
