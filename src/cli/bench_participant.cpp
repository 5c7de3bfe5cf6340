#include "cli/bench_participant.h"

#include "cli/bench_push_pull.h"
#include "collectives/barrier.h"
#include "measure/metered.h"
#include "transport/channels.h"

namespace lockstep::bench {
namespace {

constexpr Tag kBarrier = channels::kBenchBarrier, kData = channels::kBenchData;

// Posts so many messages, which share the bytes, and waits for all of them.
template <class Post>
void exchange(Transport& peers, Bytes bytes, int messages, const Post& post) {
  const std::size_t length = bytes.size / messages;
  std::vector<Pending> all;
  for (int i = 0; i < messages; ++i) all.push_back(post(bytes.part(i * length, length)));
  for (Pending& pending : all) peers.wait(pending);
}

}  // namespace

Bytes OurParticipant::buffer(std::size_t bytes) {
  if (world_ == World::hollow) return {nullptr, bytes};
  if (!window_ || window_->mine().size != bytes) {
    window_.reset();
    window_ = peers_.open_window(bytes);
  }
  return window_->mine();
}

bool OurParticipant::common_clock() const {
  for (int r = 0; r < peers_.size(); ++r)
    if (peers_.host_of(r) != 0) return false;
  return true;
}

void OurParticipant::barrier() { lockstep::barrier(peers_, kBarrier); }

void OurParticipant::all_reduce(const Work& work, Values values) {
  row(work).run(peers_, kData, values);
}

// Looked up once, so that the timed part has only the operation.
const AllReduceRow& OurParticipant::row(const Work& work) {
  if (!row_ || row_->name != work.collective) row_ = &all_reduce_named(work.collective);
  return *row_;
}

void OurParticipant::send(int to, Bytes bytes, int messages) {
  exchange(peers_, bytes, messages, [&](Bytes part) { return peers_.send(to, kData, part); });
}

void OurParticipant::recv(int from, Bytes bytes, int messages) {
  exchange(peers_, bytes, messages, [&](Bytes part) { return peers_.recv(from, kData, part); });
}

std::unique_ptr<PushPull> OurParticipant::push_pull(const Work& work) {
  window_.reset();
  return make_push_pull(rank_, work);
}

std::string OurParticipant::chosen(const Work& work, Values values) {
  if (work.operation == Operation::p2p) return "messages";
  if (work.collective != "auto") return work.collective;
  const bool in_window = window_of_all(peers_, values) != nullptr;
  return std::string(choose(work.bytes, place_of(peers_), in_window).name);
}

std::optional<std::uint64_t> OurParticipant::counted_all_reduce(const Work& work, Values values) {
  Ledger ledger(size());
  Metered metered(peers_, ledger);
  row(work).run(metered, kData, values);
  const Traffic traffic = total_of(ledger, kData.purpose);
  // In shared memory there are no messages: what counts is read from and written to peers' memory.
  const bool in_place = chosen(work, values) == "shared";
  return traffic.bytes_sent + (in_place ? traffic.bytes_received : 0);
}

}  // namespace lockstep::bench
