#include "measure/sampler.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "core/whole_file.h"

namespace lockstep {
namespace {

using Out = std::back_insert_iterator<std::string>;

template <class T>
void put(Out out, const char* format, const std::optional<T>& value) {
  if (value)
    fmt::format_to(out, fmt::runtime(format), *value);
  else
    fmt::format_to(out, "null");
}

void put(Out out, std::string_view name, const Traffic& t) {
  fmt::format_to(out,
                 R"("{}":{{"bytes_sent":{},"bytes_received":{},"messages_sent":{},)"
                 R"("messages_received":{}}})",
                 name, t.bytes_sent, t.bytes_received, t.messages_sent, t.messages_received);
}

void put_process(Out out, const Sample& s) {
  if (!s.process) {
    for (const char* name :
         {"cpu_user_percent", "cpu_system_percent", "private_bytes", "shared_bytes", "threads",
          "switches_voluntary", "switches_involuntary", "disk_read_bytes", "disk_written_bytes"})
      fmt::format_to(out, R"("{}":null,)", name);
    return;
  }
  const ProcessFigures& p = *s.process;
  fmt::format_to(out, R"("cpu_user_percent":{:.1f},"cpu_system_percent":{:.1f},)", s.user_percent,
                 s.system_percent);
  fmt::format_to(out, R"("private_bytes":{},"shared_bytes":{},"threads":{},)", p.private_bytes,
                 p.shared_bytes, p.threads);
  fmt::format_to(out, R"("switches_voluntary":{},"switches_involuntary":{},)", p.switches_voluntary,
                 p.switches_involuntary);
  fmt::format_to(out, R"("disk_read_bytes":{},"disk_written_bytes":{},)", p.disk_read_bytes,
                 p.disk_written_bytes);
}

void put_interface(Out out, const Sample& s) {
  if (!s.interface) {
    fmt::format_to(out, R"("interface":null,)");
    return;
  }
  fmt::format_to(out,
                 R"("interface":{{"name":"{}","sent_bytes":{},"received_bytes":{},)"
                 R"("sent_packets":{},"received_packets":{}}},)",
                 s.interface_name, s.interface->sent_bytes, s.interface->received_bytes,
                 s.interface->sent_packets, s.interface->received_packets);
}

void put_cgroup(Out out, const Sample& s) {
  if (!s.cgroup) {
    fmt::format_to(out, R"("cgroup":null)");
    return;
  }
  const CgroupFigures& c = *s.cgroup;
  fmt::format_to(out, R"("cgroup":{{"cpu_percent":)");
  put(out, "{:.1f}", s.cgroup_percent);
  const auto figure = [&](const char* name, const std::optional<std::uint64_t>& value) {
    fmt::format_to(out, R"(,"{}":)", name);
    put(out, "{}", value);
  };
  figure("memory_bytes", c.memory_bytes);
  figure("memory_limit_bytes", c.memory_limit_bytes);
  figure("disk_read_bytes", c.disk_read_bytes);
  figure("disk_written_bytes", c.disk_written_bytes);
  figure("pids", c.pids);
  fmt::format_to(out, "}}");
}

}  // namespace

SampleFile::SampleFile(std::string path, const std::string& header)
    : path_(std::move(path)), kept_(header + "\n") {
  flush();
}

void SampleFile::add(const Sample& s) {
  const Out out(kept_);
  fmt::format_to(out, R"({{"t":{:.4f},"step":{},)", s.t, s.rank.steps);
  put_process(out, s);
  fmt::format_to(out, R"("network":{{)");
  put(out, "exchange", s.rank.exchange);
  fmt::format_to(out, ",");
  put(out, "other", s.rank.other);
  fmt::format_to(out, "}},");
  put_interface(out, s);
  put_cgroup(out, s);
  fmt::format_to(out, "}}\n");
}

void SampleFile::flush() {
  append_text(path_, kept_);
  kept_.clear();
}

namespace {

// Samples of a rank that shares its process: taken by the rank itself, at step ends.
class StepSampler final : public Sampler {
 public:
  StepSampler(const SamplerOptions& options, const Clock& clock)
      : clock_(clock),
        period_s_(options.period_s),
        origin_s_(options.origin_s),
        file_(options.path, options.header),
        next_s_(clock.now()) {}
  ~StepSampler() override {
    try {
      if (!finished_) file_.flush();
    } catch (const std::exception&) {  // the run failed of something else already
    }
  }

  bool due() const override { return clock_.now() >= next_s_; }

  void post(const RankProgress& progress) override {
    Sample sample;
    sample.t = clock_.now() - origin_s_;
    sample.rank = progress;
    file_.add(sample);
    next_s_ = clock_.now() + period_s_;
    if (++kept_ % kKept == 0) file_.flush();
  }

  void finish() override {
    finished_ = true;
    file_.flush();
  }

  std::optional<MemoryPeaks> peaks() const override { return {}; }
  double cost_s() const override { return 0; }

 private:
  static constexpr int kKept = 64;  // virtual time says nothing about when to write

  const Clock& clock_;
  const double period_s_, origin_s_;
  SampleFile file_;
  double next_s_;
  int kept_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Sampler> sampler_of_steps(const SamplerOptions& options, const Clock& clock) {
  return std::make_unique<StepSampler>(options, clock);
}

}  // namespace lockstep
