#include "cluster/line_printer.h"

#include <unistd.h>

#include <cerrno>

namespace lockstep {

namespace {

constexpr std::size_t kLongestLine = 64 << 10;

}  // namespace

void LinePrinter::add(std::string_view bytes) {
  rest_ += bytes;
  const auto end = rest_.rfind('\n');
  if (end != std::string::npos) {
    print(std::string_view(rest_).substr(0, end + 1));
    rest_.erase(0, end + 1);
  }
  if (rest_.size() > kLongestLine) finish();
}

void LinePrinter::finish() {
  if (rest_.empty()) return;
  print(rest_ + "\n");
  rest_.clear();
}

bool LinePrinter::read_from(int fd) {
  char bytes[16 << 10];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0) {
      add({bytes, static_cast<std::size_t>(n)});
    } else if (n < 0 && errno == EAGAIN) {
      return true;
    } else if (n == 0 || errno != EINTR) {
      finish();
      return false;
    }
  }
}

void LinePrinter::print(std::string_view lines) {
  if (listener_) {
    for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1))
      listener_(lines.substr(0, lines.find('\n')));
    return;
  }
  // All of them at once, so that lines of ours and of others don't mix.
  std::string text;
  while (!lines.empty()) {
    const auto length = lines.find('\n') + 1;
    text += prefix_;
    text += lines.substr(0, length);
    lines.remove_prefix(length);
  }
  to_->pass_on(std::move(text));
}

}  // namespace lockstep
