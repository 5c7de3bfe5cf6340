#include "measure/ledger.h"

#include "core/error.h"

namespace lockstep {

namespace {

constexpr std::uint64_t Traffic::*kFigures[] = {&Traffic::bytes_sent, &Traffic::messages_sent,
                                                &Traffic::bytes_received,
                                                &Traffic::messages_received};

std::size_t line(int peer, Purpose purpose) {
  return static_cast<std::size_t>(peer) * kPurposes + static_cast<std::size_t>(purpose);
}

void check_ranks(const Ledger& a, const Ledger& b) {
  if (a.ranks() != b.ranks())
    throw InternalError(fmt::format("joining ledgers of {} and {} ranks", a.ranks(), b.ranks()));
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  for (const auto figure : kFigures) this->*figure += other.*figure;
  return *this;
}

Traffic& Traffic::operator-=(const Traffic& other) {
  for (const auto figure : kFigures) this->*figure -= other.*figure;
  return *this;
}

Traffic& Ledger::at(int peer, Purpose purpose) { return lines_.at(line(peer, purpose)); }
const Traffic& Ledger::at(int peer, Purpose purpose) const {
  return lines_.at(line(peer, purpose));
}

Ledger& Ledger::operator+=(const Ledger& other) {
  check_ranks(*this, other);
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i] += other.lines_[i];
  return *this;
}

Ledger& Ledger::operator-=(const Ledger& other) {
  check_ranks(*this, other);
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i] -= other.lines_[i];
  return *this;
}

Traffic total(const Ledger& ledger) {
  Traffic sum;
  for (int peer = 0; peer < ledger.ranks(); ++peer) sum += total_with(ledger, peer);
  return sum;
}

Traffic total_of(const Ledger& ledger, Purpose purpose) {
  Traffic sum;
  for (int peer = 0; peer < ledger.ranks(); ++peer) sum += ledger.at(peer, purpose);
  return sum;
}

Traffic total_with(const Ledger& ledger, int peer) {
  Traffic sum;
  for (int p = 0; p < kPurposes; ++p) sum += ledger.at(peer, static_cast<Purpose>(p));
  return sum;
}

}  // namespace lockstep
