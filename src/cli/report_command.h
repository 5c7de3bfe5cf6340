// lockstep report DIR|FILE.csv
#pragma once

#include <CLI/CLI.hpp>

#include "study/csv_chart.h"

namespace lockstep {

class ReportCommand {
 public:
  // The application outlives this.
  explicit ReportCommand(CLI::App& application);
  bool chosen() const { return command_->parsed(); }
  int run() const;

 private:
  void draw(const std::string& csv) const;

  CLI::App* command_;
  std::string folder_, svg_, csv_;
  study::ChartRequest chart_;
  bool json_ = false;
};

}  // namespace lockstep
