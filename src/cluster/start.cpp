#include "cluster/start.h"

#include <limits>

#include "cluster/host.h"
#include "cluster/job_key.h"
#include "core/error.h"
#include "core/units.h"

namespace lockstep {

namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kDefaultPort = 29500;  // torchrun's

struct Names {
  const char *rank, *size, *local_rank;
};
constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

std::string required(const Environment& environment, const std::string& name,
                     const std::string& because) {
  if (auto value = environment(name)) return *value;
  throw UsageError(fmt::format("{} is set but {} is not: a launcher sets both", because, name));
}

// Rank, size and local rank, by the first launcher whose variables are there.
std::optional<Start> numbers_from(const Environment& environment) {
  for (const auto& [rank, size, local_rank] : kLaunchers) {
    const auto rank_text = environment(rank);
    if (!rank_text) continue;
    Start start;
    start.size = parse_integer(size, required(environment, size, rank), 1, kMostRanks);
    start.rank = parse_integer(rank, *rank_text, 0, std::numeric_limits<int>::max());
    if (start.rank >= start.size)
      throw UsageError(fmt::format("{} is {}, but {} is {}: ranks go from 0 to {}", rank,
                                   start.rank, size, start.size, start.size - 1));
    if (const auto local = environment(local_rank))
      start.local_rank = parse_integer(local_rank, *local, 0, start.size - 1);
    return start;
  }
  return std::nullopt;
}

std::string coordinator_address(const Environment& environment) {
  Address address{environment("MASTER_ADDR").value_or("127.0.0.1"), kDefaultPort};
  if (const auto port = environment("MASTER_PORT"))
    address.port = parse_integer("MASTER_PORT", *port, 1, 65535);
  return address.text();
}

std::string key_from(const Environment& environment) {
  if (const auto fd = environment("LOCKSTEP_KEY_FD"))
    return key_from_descriptor(parse_integer("LOCKSTEP_KEY_FD", *fd, 0, kMostRanks));
  if (const auto file = environment("LOCKSTEP_KEY_FILE")) return key_from_file(*file);
  throw UsageError(
      "another launcher started this process, so it needs the job key: give every rank the same "
      "--key-file "
      "FILE (or LOCKSTEP_KEY_FILE), with 32 random bytes and mode 0600");
}

}  // namespace

std::optional<Start> start_from(const Environment& environment) {
  auto start = numbers_from(environment);
  if (!start) return std::nullopt;
  if (const auto pid = environment("LOCKSTEP_LAUNCHER_PID"))
    start->launcher_pid =
        parse_integer("LOCKSTEP_LAUNCHER_PID", *pid, 1, std::numeric_limits<int>::max());
  start->serves_coordinator = start->launcher_pid == 0 && start->rank == 0;
  start->address = coordinator_address(environment);
  if (start->serves_coordinator)
    if (const auto listen = environment("LOCKSTEP_LISTEN"))
      start->address = parse_address(*listen, "--listen", kDefaultPort).text();
  start->iface = environment("LOCKSTEP_IFACE").value_or("");
  start->transport = environment("LOCKSTEP_TRANSPORT").value_or("auto");
  if (start->transport != "auto" && start->transport != "shm" && start->transport != "ucx")
    throw UsageError(
        fmt::format("no transport between processes is called \"{}\"; there are auto, shm and ucx",
                    start->transport));
  start->key = key_from(environment);
  return start;
}

}  // namespace lockstep
