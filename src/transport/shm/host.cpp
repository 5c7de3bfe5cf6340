#include "transport/shm/host.h"

#include <unistd.h>

#include <thread>

namespace lockstep {
namespace {

std::vector<int> ranks_beside(const ShmOptions& options) {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(options.host_of.size()); ++r)
    if (options.host_of[r] == options.host_of[options.rank]) ranks.push_back(r);
  return ranks;
}

std::size_t seats_bytes(Lanes lanes, std::size_t locals) {
  return sizeof(ShmSeat) * lanes.count() * locals;
}

std::size_t segment_bytes(Lanes lanes, std::size_t locals) {
  return seats_bytes(lanes, locals) + sizeof(ShmRing) * lanes.count() * locals * locals;
}

SharedMemory segment_of(int leader_pid, int leader_fd, const ShmOptions& options,
                        const std::vector<int>& locals) {
  const SharedMemory head(leader_pid, leader_fd, sizeof(ShmSeat), false);
  const auto lanes = static_cast<int>(reinterpret_cast<const ShmSeat*>(head.data())->lanes.load());
  if (lanes != options.lanes.count())
    throw UsageError(fmt::format(
        "rank {} asks for {} lanes and rank {} for {}: all ranks of a job ask for the same number",
        options.rank, options.lanes.count(), locals.front(), lanes));
  return {leader_pid, leader_fd, segment_bytes(options.lanes, locals.size()), false};
}

}  // namespace

ShmHost::ShmHost(const ShmOptions& options, Deaths& deaths)
    : ShmHost(options, deaths,
              SharedMemory(segment_bytes(options.lanes, ranks_beside(options).size()))) {
  seat(Lanes::kOwn, options.rank).lanes = static_cast<std::uint32_t>(options.lanes.count());
}

ShmHost::ShmHost(const ShmOptions& options, Deaths& deaths, int leader_pid, int leader_fd)
    : ShmHost(options, deaths, segment_of(leader_pid, leader_fd, options, ranks_beside(options))) {}

ShmHost::ShmHost(const ShmOptions& options, Deaths& deaths, SharedMemory memory)
    : options_(options),
      deaths_(deaths),
      locals_(ranks_beside(options)),
      crowded_(locals_.size() > std::thread::hardware_concurrency()),
      memory_(std::move(memory)),
      rings_at_(seats_bytes(options.lanes, locals_.size())) {
  struct flock mine = life_of(options.rank);
  if (fcntl(memory_.fd(), F_OFD_SETLK, &mine) != 0)
    throw UsageError(fmt::format("rank {} is taken by another process on this host", options.rank));
}

int ShmHost::local_index(int rank) const {
  const auto at = std::lower_bound(locals_.begin(), locals_.end(), rank);
  if (at == locals_.end() || *at != rank)
    throw UsageError(
        fmt::format("rank {} is on another host than rank {}: shared memory doesn't "
                    "reach it",
                    rank, options_.rank));
  return static_cast<int>(at - locals_.begin());
}

// Zeroed memory is a valid seat and a valid ring, so nobody needs to construct them.
ShmSeat& ShmHost::seat(int lane, int rank) const {
  const std::size_t index = lane * locals_.size() + local_index(rank);
  return reinterpret_cast<ShmSeat*>(memory_.data())[index];
}

ShmRing& ShmHost::ring(int lane, int from, int to) const {
  const std::size_t n = locals_.size();
  const std::size_t index = (lane * n + local_index(from)) * n + local_index(to);
  return reinterpret_cast<ShmRing*>(memory_.data() + rings_at_)[index];
}

struct flock ShmHost::life_of(int rank) const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = local_index(rank);
  lock.l_len = 1;
  return lock;
}

void ShmHost::look_for_deaths() {
  for (const int rank : locals_) {
    if (rank == options_.rank || deaths_.dead(rank)) continue;
    struct flock life = life_of(rank);
    if (fcntl(memory_.fd(), F_OFD_GETLK, &life) != 0 || life.l_type != F_UNLCK) continue;
    // It says `left` before it lets the lock go, so look at the seats after the lock.
    for (int lane = 0; lane < options_.lanes.count(); ++lane)
      if (seat(lane, rank).state.load() == ShmSeat::present)
        deaths_.report(rank, "its process is gone");
  }
}

TransportError shm_gone(const ShmHost& host, const ShmSeat& peers_seat, int peer, Tag tag) {
  if (host.deaths().dead(peer)) return died(peer, host.deaths().reason(peer));
  const Blame blame{static_cast<int>(peers_seat.blamed.load()) - 1,
                    peers_seat.blamed_died.load() != 0};
  return gone(peer, blame, host.rank(), tag);
}

}  // namespace lockstep
