// Who gets an arriving message: the receive posted first that takes it; or it is kept until one
// does.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "transport/shm/ring.h"
#include "transport/transport.h"

namespace lockstep {

// An open operation of a lane.
struct ShmOperation {
  enum class Stage { waiting, streaming, done, failed };
  Stage stage = Stage::waiting;
  std::uint64_t id = 0;
  bool sends = false;
  bool is_bell = false;
  int peer = 0;
  Tag tag;
  ConstBytes out;  // what is sent,
  Bytes into;      // or where it lands
  Combine combine = nullptr;
  std::size_t moved = 0;  // bytes so far
  std::size_t size = 0;   // of the message
  std::optional<TransportError> error;
};

// A message that came before anyone asked for it.
struct ShmKept {
  int from;
  Tag tag;
  std::size_t size;
  std::size_t moved;
  std::unique_ptr<std::byte[]> data;
};

// Where an arriving message goes. Neither: it is read and dropped (its receive failed).
struct ShmLanding {
  ShmOperation* receive = nullptr;
  ShmKept* kept = nullptr;
};

class ShmInbox {
 public:
  explicit ShmInbox(int rank) : rank_(rank) {}

  // A receive is posted; what was kept for it is given at once.
  void post(ShmOperation& receive);
  // A receive ends early.
  void withdraw(ShmOperation& receive) { std::erase(posted_, &receive); }

  // Would this message find its receive?
  bool awaits(int from, const ShmFrame&) const;
  ShmLanding begin(int from, const ShmFrame&);
  // The next bytes of a message that began.
  static void land(ShmLanding, ConstBytes part);
  // All its bytes are here.
  void finish(ShmLanding);
  // They are not to be used: the sender has given them up.
  void drop(ShmLanding);

  const ShmKept* find(int from, Tag) const;

 private:
  bool match(ShmOperation& receive, int from, Tag, std::size_t size) const;
  void give_kept();

  const int rank_;
  std::vector<ShmOperation*> posted_;  // receives without a message, in order
  std::list<ShmKept> kept_;            // in order of arrival
};

}  // namespace lockstep
