// Runs the built program and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/pipes.h"

namespace lockstep {

struct Outcome {
  int status = -1;
  std::string out, err;
  std::vector<nlohmann::json> json() const {
    std::vector<nlohmann::json> lines;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

inline Outcome lockstep(const std::string& arguments, const std::string& environment = "") {
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string errors = folder.path() + "/err";
  const std::string command = environment + " " LOCKSTEP_PROGRAM " " + arguments + " 2>" + errors;
  std::FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.out.append(buffer, got);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream in(errors);
  outcome.err = {std::istreambuf_iterator(in), {}};
  return outcome;
}

}  // namespace lockstep
