// lockstep data fetch mnist, lockstep data make images
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep {

class DataCommand {
 public:
  // The application outlives this.
  explicit DataCommand(CLI::App& application);
  bool chosen() const { return fetch_->parsed() || make_->parsed(); }
  int run() const;

 private:
  int fetch() const;
  int make() const;

  std::string what_, to_;
  std::string classes_ = "10", per_class_ = "100", val_per_class_, size_ = "256x256";
  std::string quality_ = "90", seed_ = "1";
  bool json_ = false;
  CLI::App* fetch_;
  CLI::App* make_;
};

}  // namespace lockstep
