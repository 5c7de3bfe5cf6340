// Ctrl-C and SIGTERM as a descriptor that becomes readable, so that work stops where it waits and
// everything is put away in good order.
#pragma once

namespace lockstep {

// One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;

  // Readable for good after the first signal. Never read it.
  int descriptor() const { return descriptor_; }
  bool requested() const;

 private:
  int descriptor_;
};

}  // namespace lockstep
