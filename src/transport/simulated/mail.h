// The messages of one lane of a simulated rank: which are under way, which are here, which receives
// wait for them. Plain tables: no time, no blocking. Messages of one (from, tag key) are handed out
// in the order they were sent, each as soon as it and all before it have landed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/operations.h"
#include "transport/simulated/network.h"

namespace lockstep {

class SimulatedTransport;
struct SimulatedStream;

// An open request, send or receive.
struct SimulatedRequest : WireOperation {
  bool complete = false, is_send = false;
  bool awaited = false;  // its transport sleeps until this one (or another) completes
  SimulatedRequest* next = nullptr;
  struct SimulatedMessage* message = nullptr;  // of a send, until it has ended
  Arrival arrival;
  std::unique_ptr<TransportError> error;
};

struct SimulatedMessage final : Flight {
  std::uint64_t id = 0;  // see Operations
  SimulatedTransport* sender = nullptr;
  SimulatedTransport* receiver = nullptr;
  Tag tag;
  ConstBytes bytes;                   // the sender's memory while `send` is open, then `kept`
  std::unique_ptr<std::byte[]> kept;  // so that the sender may write again
  SimulatedRequest* send = nullptr;
  SimulatedStream* stream = nullptr;  // where it queues; null once taken or lost
  bool flying = false;
  bool parked = false;     // flies when a receive is posted that takes it; its peer hears of it
  double due = 0;          // from this time on
  std::uint64_t here = 0;  // counts messages that could be handed out; 0: not yet
  SimulatedMessage* next = nullptr;  // in its stream

  void land() override;
  int from() const;
};

// Messages come and go by the hundred thousand: their records are used again.
class SimulatedMessages {
 public:
  SimulatedMessage& take() { return all_.add(); }
  // Puts it back once it is neither flying nor queued nor a send's.
  void drop(SimulatedMessage& message) {
    if (message.flying || message.stream || message.send) return;
    message.kept.reset();
    all_.end(message);
  }

 private:
  Operations<SimulatedMessage> all_;
};

// A queue of records that are linked by their `next`, and in no other one.
template <class Record>
struct Chain {
  Record *first = nullptr, *last = nullptr;
  std::size_t size = 0;

  void push_back(Record& record) {
    (first ? last->next : first) = &record;
    last = &record;
    ++size;
  }
  void erase(Record& record) {
    Record* before = nullptr;
    for (Record* x = first; x != &record; x = x->next) before = x;
    (before ? before->next : first) = record.next;
    if (last == &record) last = before;
    record.next = nullptr;
    --size;
  }
};

// Messages of one sender and tag key in the order sent, and receives that wait for them.
struct SimulatedStream {
  std::uint32_t key = 0;
  Chain<SimulatedMessage> messages;
  Chain<SimulatedRequest> waiting;
};

class SimulatedMail {
 public:
  SimulatedMail(int rank, SimulatedMessages& messages) : rank_(rank), messages_(messages) {}

  // A message to this lane is sent. Returns whether a receive waits that will take it.
  bool queue(SimulatedMessage&);
  // It has landed. Hands it to the receive it completes, which is added to `completed`; so are
  // others that waited behind it.
  void landed(SimulatedMessage&, std::vector<SimulatedRequest*>& completed);
  // Takes it out of its stream, if it is in one: its sender is gone, or it is handed out.
  static void unqueue(SimulatedMessage&);

  // Completes the receive at once if its message is here, else lets it wait. Returns the message
  // that it will take if that one is parked.
  SimulatedMessage* post(SimulatedRequest&);
  void withdraw(SimulatedRequest&);
  // Is the message of this receive, which waits, under way?
  bool is_coming(const SimulatedRequest&);
  // What a receive posted now would get.
  std::optional<Arrival> probe(int from, Tag tag) const;
  // Forgets all receives: their memory is going away. Returns what was parked for them.
  std::vector<SimulatedMessage*> close();

 private:
  SimulatedStream& stream(int from, std::uint32_t key);
  // Deals with the head of a stream that may have landed.
  void advance(SimulatedStream&, std::vector<SimulatedRequest*>* completed);
  void deliver(SimulatedMessage&, SimulatedRequest&);

  const int rank_;
  SimulatedMessages& messages_;
  std::unordered_map<std::uint64_t, SimulatedStream> streams_;  // by (from, tag key)
  std::uint64_t count_ = 0;                                     // of SimulatedMessage::here
};

}  // namespace lockstep
