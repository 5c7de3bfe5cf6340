#include "train/living.h"

#include <algorithm>

#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kHere = channels::kHere, kList = channels::kLiving;

// The lowest rank asks all others, and tells those that answer who did.
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

}  // namespace

std::vector<int> agree_on_living(Transport& peers) {
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

std::vector<int> absent_from(const std::vector<int>& living, int size) {
  std::vector<int> absent;
  for (int r = 0; r < size; ++r)
    if (!std::ranges::binary_search(living, r)) absent.push_back(r);
  return absent;
}

}  // namespace lockstep
