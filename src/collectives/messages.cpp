#include "collectives/messages.h"

#include <algorithm>

namespace lockstep {

std::size_t segment_bytes_if_busy(Values longest, std::size_t most) {
  if (!longest.is_hollow()) return kSegmentBytes;
  return std::max(kSegmentBytes, (longest.bytes().size + most - 1) / most);
}

Messages::Step Messages::send(int to, Values values, Step after) {
  return add(to, true, values, nullptr, after);
}

Messages::Step Messages::take(int from, Values into, Step after) {
  return add(from, false, into, nullptr, after);
}

Messages::Step Messages::fold(std::span<const int> from, Values into, int ranks, Step after) {
  if (from.empty() || into.count() == 0) return after;
  if (from.size() == 1 && ranks == 0) return add(from[0], false, into, into.combine(), after);
  totals_.emplace_front(into, static_cast<int>(from.size()) + 1, ranks);
  return join(from, into, totals_.front(), after);
}

Messages::Step Messages::fold_distances(std::span<const int> from, Values own, Values distances) {
  totals_.emplace_front(own, distances);
  return join(from, own, totals_.front(), kStart);
}

Messages::Step Messages::join(std::span<const int> from, Values into, const Total& total,
                              Step after) {
  for (int k = 1; const int peer : from) after = add(peer, false, into, total.joining(k++), after);
  return after;
}

void Messages::then(Step step, std::function<void(Slice)> what) {
  if (step != kStart) transfers_[step].then = std::move(what);
}

Messages::Step Messages::add(int peer, bool out, Values values, Combine combine, Step after) {
  if (values.count() == 0) return kStart;
  const Step step = static_cast<Step>(transfers_.size());
  const Tag tag = tag_.format ? tag_ : tag_.with_format(values.format());
  const std::size_t bytes = values.bytes().size;
  const int segments = static_cast<int>((bytes - 1) / segment_bytes_ + 1);
  transfers_.push_back({values, combine, tag, after, line_to(peer, out), segments});

  Line& line = lines_[transfers_[step].line];
  (line.head == kStart ? line.head : transfers_[line.tail].next) = step;
  line.tail = step;
  if (after != kStart) {
    Transfer& before = transfers_[after];
    if (before.segments != segments)
      throw InternalError(fmt::format("a transfer in {} segments comes after one in {}", segments,
                                      before.segments));
    transfers_[step].next_follower = before.first_follower;
    before.first_follower = step;
  }
  return step;
}

int Messages::line_to(int peer, bool out) {
  const auto line = std::find_if(lines_.begin(), lines_.end(),
                                 [&](const Line& l) { return l.peer == peer && l.out == out; });
  if (line != lines_.end()) return static_cast<int>(line - lines_.begin());
  lines_.push_back({.peer = peer, .out = out, .open = {}});
  return static_cast<int>(lines_.size()) - 1;
}

// Segments of equal length, so that ranks that disagree about the length find out early.
Slice Messages::segment(const Transfer& transfer, int number) {
  return chunk(transfer.values.count(), transfer.segments, number);
}

void Messages::run() {
  struct Forgetting {
    Messages& messages;
    ~Forgetting() { messages.forget(); }
  } const at_the_end{*this};
  for (const bool out : {false, true})  // receives first: then less arrives unexpected
    for (Line& line : lines_)
      if (line.out == out) post(line);
  while (!oldest_.empty()) {
    const Ending ending = transport_.wait_any(oldest_, transport_.patience());
    const Arrival& arrival = ending.or_throw();
    Line& line = lines_[oldest_line_[ending.index]];
    oldest_[ending.index] = oldest_.back(), oldest_.pop_back();
    oldest_line_[ending.index] = oldest_line_.back(), oldest_line_.pop_back();
    end(line, arrival);
  }
  for (const Line& line : lines_)
    if (line.head != kStart) throw InternalError("a collective's program waits for itself");
}

// Gives up what is still open.
void Messages::forget() {
  lines_.clear();
  oldest_.clear();
  oldest_line_.clear();
  transfers_.clear();
  totals_.clear();
}

// Whatever may start on this line, starts.
void Messages::post(Line& line) {
  while (line.head != kStart && line.posted - line.ended < open_segments_) {
    Transfer& transfer = transfers_[line.head];
    const int ready =
        transfer.after == kStart ? transfer.segments : transfers_[transfer.after].ended;
    if (transfer.posted == ready) return;
    const Values part = transfer.values.part(segment(transfer, transfer.posted));
    Posted& posted = line.at(line.posted);
    posted.pending = line.out
                         ? transport_.send(line.peer, transfer.tag, part.bytes())
                         : transport_.recv(line.peer, transfer.tag, part.bytes(), transfer.combine);
    posted.step = line.head;
    posted.segment = transfer.posted;
    if (line.posted++ == line.ended) wait_for(line);
    if (++transfer.posted == transfer.segments) line.head = transfer.next;
  }
}

void Messages::wait_for(Line& line) {
  oldest_.push_back(line.at(line.ended).pending.request());
  oldest_line_.push_back(static_cast<int>(&line - lines_.data()));
}

TransportError Messages::wrong_size(int peer, Tag tag, std::size_t bytes, Values expected) const {
  const int from = transport_.job_rank(peer);
  return {TransportError::Kind::mismatch, from,
          fmt::format("rank {} sent {} bytes where rank {} expected {} ({} {}): do all ranks call "
                      "with the same size?",
                      from, bytes, transport_.job_rank(transport_.rank()), expected.bytes().size,
                      name_of(tag.purpose), tag.number)};
}

// The oldest segment of this line is through.
void Messages::end(Line& line, const Arrival& arrival) {
  Posted& through = line.at(line.ended++);
  through.pending.ended();
  if (line.posted != line.ended) wait_for(line);
  Transfer& transfer = transfers_[through.step];
  const Slice where = segment(transfer, through.segment);
  const Values part = transfer.values.part(where);
  if (arrival.bytes != part.bytes().size)
    throw wrong_size(line.peer, transfer.tag, arrival.bytes, part);
  if (transfer.then) transfer.then(where);
  ++transfer.ended;

  post(line);
  for (Step s = transfer.first_follower; s != kStart; s = transfers_[s].next_follower)
    post(lines_[transfers_[s].line]);
}

}  // namespace lockstep
