#include "train/living.h"

#include <algorithm>

#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr Tag kHere{Purpose::control, 0x109}, kList{Purpose::control, 0x10a};

// The lowest rank asks all others, and tells those that answer who did.
std::vector<char> ask_all(Transport& peers) {
  std::vector<char> here(peers.size());
  here[peers.rank()] = 1;
  for (int r = peers.rank() + 1; r < peers.size(); ++r) {
    try {
      wait_while_it_lives(peers, peers.recv(r, kHere, bytes_of(here[r])));
      here[r] = 1;
    } catch (const TransportError&) {
      here[r] = 0;
    }
  }
  for (int r = peers.rank() + 1; r < peers.size(); ++r) {
    try {
      if (here[r]) peers.wait(peers.send(r, kList, {here.data(), here.size()}));
    } catch (const TransportError&) {  // too late to say so: others have been told of it
    }
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
    try {
      peers.wait(peers.send(lowest, kHere, bytes_of(me)));
      wait_while_it_lives(
          peers,
          peers.recv(lowest, kList, {reinterpret_cast<std::byte*>(here.data()), here.size()}));
      return places_of(here);
    } catch (const TransportError&) {  // it is gone: the next is the lowest
    }
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
