// How numbers travel from a worker to a server, or weights to another worker: as they are, or in
// fewer bytes, as the run says (Crew::push_codes). Each rank that pushes or serves has one, which
// belongs to one thread at a time. A worker's keeps what it has not sent yet; a server's has no
// state.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/statement.h"

namespace lockstep {

class PushCode {
 public:
  PushCode() = default;
  PushCode(const PushCode&) = delete;
  PushCode& operator=(const PushCode&) = delete;
  virtual ~PushCode() = default;

  // On a worker, once, before its first push: it pushes numbers like these, one for each of theirs.
  virtual void begin(Values, std::span<const Parameter>) {}
  // On a worker: the message that brings `numbers`, those of the parameters from `first` on, of
  // which a push has each once. On return the numbers are what the server makes of the message.
  // The message is in the numbers themselves or in `memory`, which is for it alone; both stay as
  // they are until it is sent.
  virtual ConstBytes encode(Values numbers, std::size_t first, std::vector<std::byte>& memory) = 0;

  // Both ends know how long a message for such numbers can be, and what Tag::format it has.
  virtual std::size_t most_bytes(Values numbers) const = 0;
  virtual std::uint8_t format(Values /*numbers*/) const { return 0; }

  // Are messages always that long, and as good for a part of the numbers as for all? Then pushes
  // may go in pieces.
  virtual bool goes_in_pieces() const { return false; }

  // On a server: where a message for `into` lands, in `memory` or in place.
  virtual Bytes landing(Values into, std::vector<std::byte>& memory) const;
  // The message that landed there becomes the numbers. False: it is no such message. Whatever its
  // bytes are, nothing beyond them is read, and nothing beyond the numbers is written.
  [[nodiscard]] virtual bool decode(ConstBytes message, std::size_t first, Values into) const = 0;

  // For the audit: what the server makes of a push is the numbers and these of this worker's
  // memories (OfMemory::rank is left to others), and holds so.
  virtual std::vector<OfMemory> stated() const { return {}; }
  virtual Holds holds() const { return {}; }
  // And what bounds memories()[which] after a push, by the numbers and by what the memories of
  // stated() were before.
  virtual Holds holds_of_memory(std::size_t /*which*/) const { return {Holds::How::not_stated}; }

  // What must survive in a checkpoint, as Strategy has it: the strategy hands it on. As many on
  // every rank; without numbers where there was no begin().
  virtual std::vector<Kept> memories() { return {}; }
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}

  // So far, on this rank.
  virtual Coding coding() const { return {}; }
};

// The code of this run: numbers as they are, without a copy, unless Crew::push_codes says
// otherwise.
std::unique_ptr<PushCode> make_push_code(const Crew&);

// A message on its way to a server, with the memory that it may be in.
struct PushMessage {
  Tag tag;
  std::vector<std::byte> memory;
  ConstBytes bytes;
};
// Encodes one part of a push.
PushMessage encoded(PushCode&, Values numbers, std::size_t first);

}  // namespace lockstep
