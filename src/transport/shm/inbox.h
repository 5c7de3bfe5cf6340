// Who gets an arriving message: the receive posted first that takes it; or it is kept until one
// does.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "transport/shm/operations.h"
#include "transport/shm/ring.h"

namespace lockstep {

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
