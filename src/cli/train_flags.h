// The flags of `lockstep train`, and the TOML file that may hold the same settings.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>

#include "cli/flags.h"
#include "cluster/start.h"
#include "train/config.h"

namespace lockstep {

class TrainFlags {
 public:
  // Adds the flags. The command outlives this.
  explicit TrainFlags(CLI::App& command);

  // What they ask for, checked, with everything filled in that follows from other flags and from
  // the launcher that started this process, if one did. `notices` gets what people are to be told
  // of it, if anybody is to hear it. Call after the parse. UsageError.
  TrainConfig configured(const std::optional<Start>&,
                         std::vector<std::string>* notices = nullptr) const;
  const HostFlags& hosts() const { return hosts_; }
  bool json() const { return json_; }
  bool dry_run() const { return dry_run_; }
  bool tells() const { return tells_; }  // a program reads how far it has come

 private:
  // What was given on the command line, over what CONFIG.toml says, over `base`. UsageError.
  TrainConfig over(TrainConfig base) const;
  // What CONFIG.toml says, over `base`. UsageError, which names the file.
  TrainConfig over_by_file(TrainConfig base) const;
  std::string setting_named(std::string key) const;
  void add_hosts(CLI::App&);
  template <class T>
  void add(CLI::App&, const std::string& names, const std::string& setting, T& value,
           const std::string& text);

  TrainConfig flags_;                            // of these, only what was given counts
  std::map<std::string, CLI::Option*> options_;  // by setting
  std::string file_;
  HostFlags hosts_;
  bool json_ = false, dry_run_ = false, tells_ = false;
};

}  // namespace lockstep
