// Ctrl-C, SIGTERM and SIGHUP (unless nohup asked to ignore that) as a descriptor that becomes
// readable, so that work stops where it waits and everything is put away in good order.
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

  // As if this signal had come: for a part of the program that took it in our place.
  static void request(int signal);
  // The signal that came last in this process; 0: none.
  static int last_signal();

 private:
  int descriptor_;
};

}  // namespace lockstep
