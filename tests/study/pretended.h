// A command to study that runs nothing: what it is asked to do is kept, and how it ends is told.
#pragma once

#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/names.h"
#include "core/whole_file.h"
#include "study/plan.h"
#include "study/run_record.h"
#include "study/runner.h"

namespace lockstep::study {

class PretendedSubject : public Subject {
 public:
  std::string command() const override { return "train"; }
  std::vector<std::string> flags() const override {
    return {"workers", "strategy", "cluster", "limit", "epochs", "optimizer", "fault", "audit"};
  }
  bool seeded() const override { return true; }
  nlohmann::json settings(const Flags& flags) const override {
    if (flags.contains("workers") && flags.at("workers").text() == "0")
      throw UsageError("--workers must be at least 1");
    return flags;
  }
  Flags alone(const Flags&) const override { return {{"workers", {{"1"}}}}; }
};

inline StudyFile file_from(const std::string& text, bool quick = false) {
  return parse_study("title = \"T\"\n" + text, "a.toml", quick);
}
inline Study plan_from_text(const std::string& text, bool quick = false) {
  return plan_study(file_from(text, quick), PretendedSubject());
}

// A run.json such as `lockstep train` leaves.
inline nlohmann::ordered_json result_json(double score, double step_s = 0.1) {
  const nlohmann::ordered_json rank = {{"rank", 0},
                                       {"role", "worker"},
                                       {"bytes_sent", 1000},
                                       {"messages_sent", 10},
                                       {"compute_seconds", 10 * step_s},
                                       {"communicate_seconds", 0.5},
                                       {"wait_seconds", 0.25},
                                       {"cpu_percent", 90.0},
                                       {"peak_rss_bytes", 5000}};
  return {{"status", "done"},
          {"score", score},
          {"steps", 10},
          {"train_seconds", 10 * step_s + 0.75},
          {"oversubscribed", true},
          {"simulated", false},
          {"workers_detail", {rank, rank}}};
}
inline void write_done(const std::string& folder, const nlohmann::ordered_json& result,
                       const nlohmann::ordered_json& config = nlohmann::ordered_json::object()) {
  std::filesystem::create_directories(folder);
  write_whole(folder + "/run.json",
              nlohmann::ordered_json{{"kind", "lockstep run"},
                                     {"status", "done"},
                                     {"config", config},
                                     {"machine", {{"host", "h"}, {"cores", 2}}},
                                     {"result", result}}
                  .dump());
}

class SilentWatcher : public RunWatcher {
 public:
  void starts(const Run&, std::size_t, std::size_t, double) override {}
  void ended(const Run&, std::size_t, std::size_t) override {}
};

}  // namespace lockstep::study
