// One run as its folder tells it. Whatever is missing or not there yet is left out: a report can be
// made at any moment. Of a run.json that is damaged nothing is taken, and the run has failed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::study {

struct RunRecord {
  std::string status = "waiting", reason;  // of run.json; "failed" if cut off or damaged
  nlohmann::ordered_json config, machine, facts, result;  // null: not there
  // A line for each score: epoch, step, seconds, bytes, score, loss, train_loss,
  // consensus_distance.
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();

  bool damaged = false;

  bool done() const { return status == "done"; }
};

RunRecord read_run(const std::string& folder);

// What a command that keeps no run.json (bench), or one that ended before it could write it, came
// to. `rows`: JSON objects that it printed. `commit`: of the program.
void write_run(const std::string& folder, const std::string& status, const std::string& reason,
               const nlohmann::ordered_json& config, const nlohmann::ordered_json& rows,
               const std::string& commit);

// The JSON objects among the lines of a text; a last line that was cut is passed over.
nlohmann::ordered_json json_lines(const std::string& text);
// The file's text, or nothing if it can't be read.
std::string text_of(const std::string& path);
// What is at `key` of an object; null: there is nothing, or it is no object.
nlohmann::ordered_json member(const nlohmann::ordered_json& object, const char* key);
// The list at `key`, or an empty one.
nlohmann::ordered_json list_at(const nlohmann::ordered_json& object, const char* key);
// The text at `key`, or an empty one.
std::string text_at(const nlohmann::ordered_json& object, const char* key);
// A number at `key`, or null.
nlohmann::ordered_json number_at(const nlohmann::ordered_json& object, const char* key);

// What each rank used over time, from worker-R.jsonl, thin enough to be drawn. One object a rank:
// rank, role, host, and arrays of equal length by time `t`; totals have become rates. At most
// `points` each, every one for an equal part of the samples, so that nothing between two points is
// lost. Empty where a run has no samples.
nlohmann::ordered_json samples_of(const std::string& run_folder, std::size_t points);
// One rank's, from its file's lines.
nlohmann::ordered_json thinned(const nlohmann::ordered_json& lines, std::size_t points);

}  // namespace lockstep::study
