#include "cli/joined_engine.h"

#include "cli/our_participant.h"

namespace lockstep {
namespace {

constexpr Tag kResult{Purpose::control, 2};

void send_text(Transport& peers, int to, const std::string& text) {
  std::uint64_t size = text.size();
  peers.wait(peers.send(to, kResult, bytes_of(size)));
  peers.wait(peers.send(to, kResult, {text.data(), text.size()}));
}

std::string receive_text(Transport& peers, int from) {
  std::uint64_t size = 0;
  peers.wait(peers.recv(from, kResult, bytes_of(size)));
  std::string text(size, '\0');
  peers.wait(peers.recv(from, kResult, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

}  // namespace

JoinedEngine::~JoinedEngine() {
  if (!failed_) job_.leave();
}

bench::Result JoinedEngine::measure(const bench::Work& work) try {
  Transport& peers = job_.rank().peers;
  bench::OurParticipant me(job_.rank(), bench::OurParticipant::World::real);
  const bench::Result mine = bench::measure(work, me);
  if (peers.rank() != 0) {
    send_text(peers, 0, to_line(mine));
    return mine;
  }
  std::vector<bench::Result> all{mine};
  for (int r = 1; r < peers.size(); ++r) all.push_back(bench::result_from(receive_text(peers, r)));
  return bench::join(all);
} catch (const std::exception& error) {
  failed_ = true;
  job_.fail(error);
  throw;
}

}  // namespace lockstep
