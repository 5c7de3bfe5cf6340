#include "train/gather.h"

#include <algorithm>

#include "collectives/all_gather.h"
#include "collectives/all_reduce.h"
#include "collectives/broadcast.h"

namespace lockstep {
namespace {

constexpr Tag kLength{Purpose::control, 0x101};
constexpr Tag kText{Purpose::control, 0x102};
constexpr Tag kNumbers{Purpose::control, 0x103};
constexpr Tag kRow{Purpose::control, 0x107};

}  // namespace

std::vector<std::string> gather_texts(Transport& peers, const std::string& mine) {
  std::uint64_t length = mine.size();
  if (peers.rank() != 0) {
    const Request first = peers.send(0, kLength, bytes_of(length));
    const Request second = peers.send(0, kText, {mine.data(), mine.size()});
    peers.wait(first);
    peers.wait(second);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int r = 1; r < peers.size(); ++r) {
    peers.wait(peers.recv(r, kLength, bytes_of(length)));
    std::string& text = texts.emplace_back(length, ' ');
    peers.wait(peers.recv(r, kText, {reinterpret_cast<std::byte*>(text.data()), length}));
  }
  return texts;
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

std::vector<std::vector<double>> rows_at_first(Transport& peers, const std::vector<double>& mine) {
  std::uint64_t length = mine.size();
  if (peers.rank() != 0) {
    const Request first = peers.send(0, kLength, bytes_of(length));
    const Request second = peers.send(0, kRow, {mine.data(), mine.size() * sizeof(double)});
    peers.wait(first);
    peers.wait(second);
    return {};
  }
  std::vector<std::vector<double>> rows{mine};
  for (int r = 1; r < peers.size(); ++r) {
    peers.wait(peers.recv(r, kLength, bytes_of(length)));
    std::vector<double>& row = rows.emplace_back(length);
    peers.wait(peers.recv(r, kRow,
                          {reinterpret_cast<std::byte*>(row.data()), row.size() * sizeof(double)}));
  }
  return rows;
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
