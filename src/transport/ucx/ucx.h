// Messages between hosts over UCX, tag matching, TCP. One worker a lane; lanes are opened, their
// addresses exchanged by whoever starts the ranks, then connected.
//
// The wire is neither encrypted nor authenticated: whoever reaches the interface can send in a
// member's name, so the interface must belong to a network that is trusted. What strangers send in
// nobody's name is dropped, and without the job's key they can end nobody (see peers.h).
// Large messages wait at the sender until the receiver asks for them; small ones travel at once.
// A rank that waits sleeps. Windows are private memory: hosts share none.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/operations.h"
#include "transport/transport.h"
#include "transport/ucx/peers.h"

namespace lockstep {

// A place in the job, the same for all lanes of a rank.
struct UcxPlace {
  int rank = 0;
  std::vector<int> hosts;  // by rank
  double patience_seconds = kDefaultPatienceSeconds;
  Seal seal{};  // of greetings and goodbyes; the same for all ranks
};

// Buffers lent out again and again: mapping and faulting in a large block costs more than filling
// it. Belongs to one thread.
class ScratchPool {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t capacity = 0;
  };
  // At least `bytes` large; contents undefined.
  Block take(std::size_t bytes);
  void give_back(Block&&);

 private:
  std::vector<Block> free_;  // ascending, so that take() finds the best fit
};

class UcxTransport final : public Transport {
 public:
  // `addresses`: UcxWorker::address() of this lane by rank; an empty one is a rank that this
  // transport is never asked to reach. `deaths` outlives the transport.
  UcxTransport(std::unique_ptr<UcxWorker> worker, UcxPlace place,
               std::vector<std::string> addresses, Deaths& deaths);
  ~UcxTransport() override;

  int rank() const override { return place_.rank; }
  int size() const override { return static_cast<int>(place_.hosts.size()); }
  int host_of(int rank) const override { return place_.hosts.at(rank); }

  // UsageError if hollow: a real wire carries real bytes.
  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Request post_bell() override { return {operations_.add_bell(rank()).id}; }
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  std::optional<Arrival> probe(int from, Tag) override;
  // UCX keeps the address of a long message until that has ended, and can't be talked out of it. So
  // a long message that is given up is let come to its end while it moves, for a second at most.
  // One that then has not ended is ended by hanging up on the peer: for each of them the other has
  // left.
  bool give_up(Request) noexcept override;

  void ring() override {
    rings_.fetch_add(1);
    worker_->wake();
  }

  std::vector<int> dead_peers() override { return deaths_.list(); }
  std::unique_ptr<Window> open_window(std::size_t bytes, std::span<const int> members) override;
  Window* window_at(const void* address) override;
  double now() const override;
  double patience_seconds() const override { return place_.patience_seconds; }

  // Sleeps until something may have come, at most so long: for one who waits for other things too.
  void doze(double seconds) { peers_.sleep(seconds); }

  // Connects with all ranks that are reached from here, in so many seconds at most. Returns those
  // that have not answered yet: call again until nobody, on any rank, waits for an answer, since
  // ours leave inside this call. TransportError names one that could not be reached.
  std::vector<int> meet_everybody(double seconds);
  // From now on nobody can connect any more. REQUIRES: all ranks have met everybody.
  void close_door() { worker_->admit_only({}); }

 private:
  class PrivateWindow;
  struct Operation : WireOperation {
    bool ended = false;
    bool receives = false;
    bool given_up = false;       // nobody asks for it: it is released when it has ended
    ScratchPool::Block scratch;  // where it lands before it is folded, or a copy of what is sent
    std::size_t bytes = 0;       // to send
    void* request = nullptr;     // UCX's, if it made one
    ucs_status_t status = UCS_OK;
    ucp_tag_recv_info_t info{};
  };

  static void on_sent(void* request, ucs_status_t, void* operation);
  static void on_received(void* request, ucs_status_t, const ucp_tag_recv_info_t*, void* operation);
  static void begun(Operation&, ucs_status_ptr_t);
  void post(Operation&);
  void release(Operation&);
  static bool arrived(const Operation&);
  std::optional<Ending> take(Operation&);
  Ending land(Operation&);
  // Ends the operation if its peer is gone.
  std::optional<Ending> hopeless(Operation&);
  bool progress();
  void end_soon(Operation&);

  const UcxPlace place_;
  Deaths& deaths_;
  std::vector<Window*> windows_;  // those that are open
  ScratchPool scratch_, copies_;
  Operations<Operation> operations_;
  std::vector<Operation*> orphans_;       // given up, and not yet ended
  std::atomic<std::uint32_t> rings_ = 0;  // not yet heard
  std::unique_ptr<UcxWorker> worker_;
  UcxPeers peers_;  // goes first: its goodbye still ends operations
};

}  // namespace lockstep
