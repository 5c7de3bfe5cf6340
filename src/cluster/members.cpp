#include "cluster/members.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep {

namespace {

constexpr std::size_t kPageBytes = 32 << 10;  // of one roster reply; a frame holds twice as much
constexpr std::size_t kLongestReason = 1000;
// Of one reply, so that it fits into a frame.
constexpr std::ptrdiff_t kDeathsAPage = 32, kDeparturesAPage = 512;

std::size_t bytes_of_member(const protocol::Member& m) {
  std::size_t bytes = 64 + m.host.size() + m.host_name.size();
  for (const auto& address : m.addresses) bytes += 8 + address.size();
  for (const auto& source : m.sources) bytes += 8 + source.size();
  return bytes;
}

void check_bounds(const protocol::Member& m) {
  if (m.host.size() > 256 || m.host_name.size() > 256 || m.addresses.size() > 8 ||
      std::any_of(m.addresses.begin(), m.addresses.end(),
                  [](auto& a) { return a.size() > 4096; }) ||
      std::ssize(m.sources) > Members::kMostSources ||
      std::any_of(m.sources.begin(), m.sources.end(), [](auto& s) { return s.size() > 16; }))
    throw UsageError(
        fmt::format("rank {} introduced itself with more than fits: at most 256 bytes of host "
                    "name, 8 addresses of 4096 bytes and {} sources of 16",
                    m.rank, Members::kMostSources));
}

template <class Item>
std::vector<Item> page_of(const std::vector<Item>& items, int known, std::ptrdiff_t most) {
  const auto from = std::clamp<std::ptrdiff_t>(known, 0, std::ssize(items));
  const auto to = std::min(std::ssize(items), from + most);
  return {items.begin() + from, items.begin() + to};
}

protocol::Death death(int rank, const std::string& reason) {
  protocol::Death d;
  d.rank = rank;
  d.reason = reason.substr(0, kLongestReason);
  return d;
}

}  // namespace

Members::Members(int size) : ranks_(size) {}

void Members::join(const protocol::Member& member, int size_there) {
  std::lock_guard lock(mutex_);
  if (size_there != size())
    throw UsageError(fmt::format("rank {} counts {} ranks, but this job has {}", member.rank,
                                 size_there, size()));
  if (member.rank < 0 || member.rank >= size())
    throw UsageError(fmt::format("rank {} is out of range: this job has ranks 0 to {}", member.rank,
                                 size() - 1));
  check_bounds(member);
  Entry& entry = ranks_[member.rank];
  if (entry.round > 0)
    throw UsageError(fmt::format(
        "rank {} is taken: pid {} on host {} joined as rank {} before pid {} on host {}",
        member.rank, entry.member.pid, entry.member.host_name, member.rank, member.pid,
        member.host_name));
  if (entry.state == State::dead)
    throw UsageError(fmt::format("rank {} is known to be dead and cannot join", member.rank));
  entry = {.state = State::joined, .round = 1, .ticks = 0, .member = member};
}

void Members::offer(int rank, int memory_fd, const std::vector<std::string>& addresses) {
  std::lock_guard lock(mutex_);
  Entry& entry = ranks_[rank];
  protocol::Member member = entry.member;
  member.memory_fd = memory_fd;
  member.addresses = addresses;
  check_bounds(member);
  entry.member = member;
  entry.round = std::max(entry.round, 2);
}

void Members::ready(int rank) {
  std::lock_guard lock(mutex_);
  ranks_[rank].round = 3;
}

void Members::heard_from(int rank) {
  std::lock_guard lock(mutex_);
  ranks_[rank].ticks = 0;
}

void Members::leave(int rank, int status, int blamed, const std::string& why) {
  std::lock_guard lock(mutex_);
  Entry& entry = ranks_[rank];
  if (entry.state != State::joined) return;
  const bool survivor = status == kFailed && blamed >= 0 && blamed < size() && blamed != rank;
  if (status == kStopsAll) survivors_.push_back({rank, rank, death(rank, why).reason});
  if (status != kWell && !survivor) return bury(rank, why);
  entry.state = State::left;
  if (status == kWell) departed_.push_back(rank);
  if (survivor) survivors_.push_back({rank, blamed, death(rank, why).reason});
}

void Members::closed(int rank) {
  std::lock_guard lock(mutex_);
  if (ranks_[rank].state != State::joined) return;
  ranks_[rank].state = State::closed;
  ranks_[rank].ticks = 0;
}

void Members::report_death(int rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  const State state = ranks_[rank].state;
  if (state != State::left && state != State::dead) return bury(rank, reason);
  if (!ranks_[rank].only_closed) return;
  ranks_[rank].only_closed = false;
  for (protocol::Death& known : deaths_)
    if (known.rank == rank) known = death(rank, reason);
}

void Members::report_end(int rank) {
  report_death(rank, "it ended with exit status 0 before it had left the job");
}

void Members::tick() {
  std::lock_guard lock(mutex_);
  for (int r = 0; r < size(); ++r) {
    Entry& entry = ranks_[r];
    ++entry.ticks;
    if (entry.state == State::closed && entry.ticks > kClosedTicks) {
      entry.only_closed = true;
      bury(r, "its control connection closed");
    }
    if (entry.state == State::joined && entry.ticks > kSilentTicks)
      bury(r, fmt::format("it was silent for {:.0f} s", kSilentTicks * kTickSeconds));
  }
}

void Members::bury(int rank, const std::string& reason) {
  ranks_[rank].state = State::dead;
  deaths_.push_back(death(rank, reason));
}

std::vector<protocol::Death> Members::deaths(int known) const {
  std::lock_guard lock(mutex_);
  return page_of(deaths_, known, std::ssize(deaths_));
}

protocol::News Members::news(int deaths, int departed) const {
  std::lock_guard lock(mutex_);
  protocol::News news;
  news.deaths = page_of(deaths_, deaths, kDeathsAPage);
  news.departed = page_of(departed_, departed, kDeparturesAPage);
  news.more =
      std::ssize(news.deaths) == kDeathsAPage || std::ssize(news.departed) == kDeparturesAPage;
  return news;
}

std::vector<Survivor> Members::survivors() const {
  std::lock_guard lock(mutex_);
  return survivors_;
}

std::vector<int> Members::missing(int round) const {
  std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (ranks_[r].round < round) ranks.push_back(r);
  return ranks;
}

std::vector<protocol::Member> Members::page(int first) const {
  std::lock_guard lock(mutex_);
  std::vector<protocol::Member> members;
  std::size_t bytes = 0;
  for (int r = std::max(first, 0); r < size(); ++r) {
    bytes += bytes_of_member(ranks_[r].member);
    if (bytes > kPageBytes && !members.empty()) break;
    members.push_back(ranks_[r].member);
  }
  return members;
}

bool Members::all_gone() const {
  std::lock_guard lock(mutex_);
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Entry& e) {
    return e.state == State::left || e.state == State::dead;
  });
}

}  // namespace lockstep
