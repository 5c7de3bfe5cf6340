// The three kinds of failure. Catch `Error` to print `what()`: it is one sentence that says what
// was wrong, where, and what would be right.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lockstep {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller asked for something that cannot be: wrong flag, name, size. Exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A peer is dead, left, late, or sent what was not agreed. Exit status 1.
class TransportError : public Error {
 public:
  enum class Kind { dead, left, deadline, mismatch };
  TransportError(Kind kind, int peer, const std::string& what)
      : Error(what), kind_(kind), peer_(peer) {}
  Kind kind() const { return kind_; }
  bool is_gone() const { return kind_ == Kind::dead || kind_ == Kind::left; }
  // The rank at fault (the one that died, also where the news came through another), or -1.
  int peer() const { return peer_; }

 private:
  Kind kind_;
  int peer_;
};

// A bug of ours, or a machine that refuses (out of memory, no such device). Exit status 1.
class InternalError : public Error {
 public:
  using Error::Error;
};

// Throws InternalError with errno's text: "memfd_create: Too many open files".
[[noreturn]] inline void throw_errno(const std::string& what) {
  throw InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace lockstep
