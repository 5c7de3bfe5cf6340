#include "collectives/generation.h"

#include <algorithm>
#include <numeric>

#include "collectives/barrier.h"
#include "core/error.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kHere = channels::kHere, kList = channels::kLiving;

// The lowest rank asks all others, and tells those that answer which ranks have answered.
std::vector<char> ask_all(Transport& peers) {
  std::vector<char> here(peers.size());
  here[peers.rank()] = 1;
  for (int r = peers.rank() + 1; r < peers.size(); ++r) {
    Pending answer = peers.recv(r, kHere, bytes_of(here[r]));
    here[r] = ending_while_it_lives(peers, answer).arrived();
  }
  for (int r = peers.rank() + 1; r < peers.size(); ++r) {
    if (!here[r]) continue;
    Pending list = peers.send(r, kList, {here.data(), here.size()});
    peers.ending(list, peers.patience());  // if it is gone now, the others have been told otherwise
  }
  return here;
}

std::vector<int> places_of(const std::vector<char>& here) {
  std::vector<int> places;
  for (std::size_t r = 0; r < here.size(); ++r)
    if (here[r]) places.push_back(static_cast<int>(r));
  return places;
}

// Collective over the ranks that are left: waits for all that live, however late they come. Returns
// the same ascending list on all of them. A rank that is lost while they agree may be in the list;
// then the next exchange with it fails and names it.
std::vector<int> survivors_of(Transport& peers) {
  char me = 1;
  std::vector<char> here(peers.size());
  for (int lowest = 0; lowest < peers.rank(); ++lowest) {
    Pending told = peers.send(lowest, kHere, bytes_of(me));
    if (!peers.ending(told, peers.patience()).arrived()) continue;  // the next is the lowest
    Pending list =
        peers.recv(lowest, kList, {reinterpret_cast<std::byte*>(here.data()), here.size()});
    if (ending_while_it_lives(peers, list).arrived()) return places_of(here);
  }
  return places_of(ask_all(peers));
}

}  // namespace

Generation::Generation(Transport& job, int workers, bool managed)
    : job_(&job), workers_(workers), managed_(managed), ranks_(job.size()) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
  form_groups();
}

Generation::Generation(const Generation& before, std::vector<int> ranks)
    : job_(before.job_),
      workers_(before.workers_),
      managed_(before.managed_),
      ranks_(std::move(ranks)) {
  const int manager = workers_;
  if (managed_ && ranks_.back() != manager)
    throw TransportError(
        TransportError::Kind::dead, manager,
        fmt::format("rank {}, the manager, is gone, and with it the model", manager));
  if (working().empty())
    throw TransportError(TransportError::Kind::dead, 0,
                         "all workers are gone: nobody is left to train");
  form_groups();
}

void Generation::form_groups() {
  if (managed_ || std::ssize(ranks_) < job_->size()) {
    std::vector<int> order = ranks_;
    if (managed_) std::ranges::rotate(order, order.end() - 1);  // the manager is the last rank
    present_ = std::make_unique<Group>(*job_, std::move(order));
  }
  if (job_->rank() < workers_) at_work_ = std::make_unique<Group>(*job_, working());
}

Generation Generation::survivors() const {
  Transport& among = managed_ ? present() : *job_;
  std::vector<int> ranks;
  for (const int r : survivors_of(among)) ranks.push_back(among.job_rank(r));
  std::ranges::sort(ranks);
  return {*this, std::move(ranks)};
}

void Generation::meet() const { patient_barrier(present(), channels::kTogether); }

std::vector<int> Generation::working() const {
  return {ranks_.begin(), std::ranges::lower_bound(ranks_, workers_)};
}

std::vector<int> Generation::lost() const {
  std::vector<int> lost;
  for (int r = 0; r < job_->size(); ++r)
    if (!std::ranges::binary_search(ranks_, r)) lost.push_back(r);
  return lost;
}

}  // namespace lockstep
