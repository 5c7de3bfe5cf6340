#include "collectives/gather.h"

#include <algorithm>

#include "collectives/all_gather.h"
#include "collectives/all_reduce.h"
#include "collectives/broadcast.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kLength = channels::kGatheredLength, kText = channels::kGatheredText,
              kNumbers = channels::kGatheredNumbers, kRow = channels::kGatheredRow;

// How many, then all of them; none if the rank is gone or late.
template <class Run>
Ending receive(Transport& peers, int from, Tag tag, Run& run) {
  std::uint64_t length = 0;
  Pending first = peers.recv(from, kLength, bytes_of(length));
  if (Ending ending = peers.ending(first, peers.patience()); !ending.arrived()) return ending;
  run.resize(length);
  Pending second =
      peers.recv(from, tag, {reinterpret_cast<std::byte*>(run.data()), length * sizeof(run[0])});
  Ending ending = peers.ending(second, peers.patience());
  if (!ending.arrived()) run.clear();
  return ending;
}

// Every rank's run of bytes or numbers, on rank 0.
template <class Run>
std::vector<Run> at_first(Transport& peers, Tag tag, const Run& mine, std::set<int>* gone) {
  if (peers.rank() != 0) {
    std::uint64_t length = mine.size();
    Pending first = peers.send(0, kLength, bytes_of(length));
    Pending second = peers.send(0, tag, {mine.data(), length * sizeof(mine[0])});
    peers.wait(first);
    peers.wait(second);
    return {};
  }
  std::vector<Run> all{mine};
  for (int r = 1; r < peers.size(); ++r) {
    all.emplace_back();
    if (gone && gone->contains(r)) continue;
    const Ending ending = receive(peers, r, tag, all.back());
    if (gone && ending.gone())
      gone->insert(r);
    else
      ending.or_throw();
  }
  return all;
}

}  // namespace

std::vector<std::string> gather_texts(Transport& peers, const std::string& mine,
                                      std::set<int>* gone) {
  return at_first(peers, kText, mine, gone);
}

std::string text_of_first(Transport& peers, const std::string& mine) {
  std::int64_t length = static_cast<std::int64_t>(mine.size());
  broadcast(peers, kLength, Values(&length, 1, Type::int64));
  std::string text = peers.rank() == 0 ? mine : std::string(length, ' ');
  // As numbers of four bytes, which is what a broadcast carries.
  text.resize((length + 3) / 4 * 4);
  broadcast(peers, kText, Values(text.data(), text.size() / 4, Type::int32));
  text.resize(length);
  return text;
}

void sum_over_ranks(Transport& peers, std::vector<double>& numbers) {
  auto_all_reduce(peers, kNumbers, Values(numbers.data(), numbers.size(), Type::fp64));
}

std::vector<std::vector<double>> rows_at_first(Transport& peers, const std::vector<double>& mine,
                                               std::set<int>* gone) {
  return at_first(peers, kRow, mine, gone);
}

std::vector<std::vector<double>> all_rows(Transport& peers, const std::vector<double>& mine) {
  const std::size_t count = mine.size();
  std::vector<double> all(count * peers.size());
  std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(count) * peers.rank());
  all_gather(peers, kNumbers, Values(all.data(), all.size(), Type::fp64));
  std::vector<std::vector<double>> rows;
  for (int r = 0; r < peers.size(); ++r)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(count) * r,
                      all.begin() + static_cast<std::ptrdiff_t>(count) * (r + 1));
  return rows;
}

}  // namespace lockstep
