// How a process learns which rank it is, from the variables that its launcher set.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep {

struct Start {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string address;              // HOST:PORT of the coordinator
  std::string key;                  // 32 bytes
  std::string iface;                // name or CIDR; empty: the one that leads to the coordinator
  std::string transport = "auto";   // auto|shm|ucx
  bool serves_coordinator = false;  // rank 0 started by another launcher
  int launcher_pid = 0;             // ours, on this machine; 0: another launcher's
};

// Looks a variable up. getenv is only called in cli/, which may also answer for its flags:
// --join as MASTER_ADDR and MASTER_PORT, --listen as LOCKSTEP_LISTEN, --key-file as
// LOCKSTEP_KEY_FILE, --iface as LOCKSTEP_IFACE, --transport as LOCKSTEP_TRANSPORT.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// nullopt: not started by any launcher. First our own launcher's variables, then torchrun's (RANK,
// WORLD_SIZE), Open MPI's, Slurm's and PMI's. Under another launcher rank 0 serves the coordinator
// at LOCKSTEP_LISTEN, or MASTER_ADDR:MASTER_PORT (127.0.0.1:29500), and a key file is needed.
// UsageError names the variable that is wrong. Reads and closes the key's descriptor: call it once.
std::optional<Start> start_from(const Environment&);

}  // namespace lockstep
