#include "measure/sampler.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/whole_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// To so many parts of one.
double rounded(double value, double parts) { return std::round(value * parts) / parts; }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Traffic& t) {
  return {{"bytes_sent", t.bytes_sent},
          {"bytes_received", t.bytes_received},
          {"messages_sent", t.messages_sent},
          {"messages_received", t.messages_received}};
}

Json json_of(const InterfaceFigures& f, std::string_view name) {
  return {{"name", name},
          {"sent_bytes", f.sent_bytes},
          {"received_bytes", f.received_bytes},
          {"sent_packets", f.sent_packets},
          {"received_packets", f.received_packets}};
}

Json json_of(const CgroupFigures& f, const std::optional<double>& percent) {
  return {{"cpu_percent", percent ? Json(rounded(*percent, 10)) : Json()},
          {"memory_bytes", or_null(f.memory_bytes)},
          {"memory_limit_bytes", or_null(f.memory_limit_bytes)},
          {"disk_read_bytes", or_null(f.disk_read_bytes)},
          {"disk_written_bytes", or_null(f.disk_written_bytes)},
          {"pids", or_null(f.pids)}};
}

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

SampleFile::SampleFile(std::string path, const std::string& header)
    : path_(std::move(path)), kept_(header + "\n") {
  flush();
}

void SampleFile::add(const Sample& s) {
  const auto percent = [&](double value) { return s.process ? Json(rounded(value, 10)) : Json(); };
  const auto of = [&](auto figure) { return s.process ? Json((*s.process).*figure) : Json(); };
  const Json line = {
      {"t", rounded(s.t, 1e4)},
      {"step", s.rank.steps},
      {"cpu_user_percent", percent(s.user_percent)},
      {"cpu_system_percent", percent(s.system_percent)},
      {"private_bytes", of(&ProcessFigures::private_bytes)},
      {"shared_bytes", of(&ProcessFigures::shared_bytes)},
      {"threads", of(&ProcessFigures::threads)},
      {"switches_voluntary", of(&ProcessFigures::switches_voluntary)},
      {"switches_involuntary", of(&ProcessFigures::switches_involuntary)},
      {"disk_read_bytes", of(&ProcessFigures::disk_read_bytes)},
      {"disk_written_bytes", of(&ProcessFigures::disk_written_bytes)},
      {"network", {{"exchange", json_of(s.rank.exchange)}, {"other", json_of(s.rank.other)}}},
      {"interface", s.interface ? json_of(*s.interface, s.interface_name) : Json()},
      {"cgroup", s.cgroup ? json_of(*s.cgroup, s.cgroup_percent) : Json()}};
  kept_ += line.dump() + "\n";
}

void SampleFile::flush() {
  append_text(path_, kept_);
  kept_.clear();
}

std::unique_ptr<Sampler> sampler_of_steps(const SamplerOptions& options, const Clock& clock) {
  return std::make_unique<StepSampler>(options, clock);
}

}  // namespace lockstep
