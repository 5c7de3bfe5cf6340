// The messages of one collective on one rank, written down as a short program and then run
// together. Long transfers go in segments, and a segment moves on as soon as the step it comes
// after has finished with it: a rank sends one segment while the next is still arriving. Nothing
// here waits for a send while a receive could go on, and the number of open requests is bounded.
//
// Both ends name their transfers with each other in the same order and size: then messages match,
// and a program without circles cannot lock up. Empty transfers send no message.
#pragma once

#include <forward_list>
#include <functional>
#include <span>
#include <vector>

#include "core/total.h"
#include "transport/transport.h"

namespace lockstep {

// Long enough to hide the cost of a message, short enough to fill a pipeline.
inline constexpr std::size_t kSegmentBytes = 1024 * 1024;

// For programs that keep every line busy whatever the segments: transfers as long as `longest` go
// in at most `most` segments if they are hollow, since a simulator pays for each message.
std::size_t segment_bytes_if_busy(Values longest, std::size_t most = 1);

class Messages {
 public:
  // A transfer of the program, for others to come after.
  using Step = int;
  static constexpr Step kStart = -1;

  // A `tag` that has a format keeps it; else it gets that of the values.
  // REQUIRES: a segment holds at least one value.
  Messages(Transport& transport, Tag tag, std::size_t segment_bytes = kSegmentBytes)
      : transport_(transport), tag_(tag), segment_bytes_(segment_bytes) {}

  // At most so many segments with one peer in one direction at once, 1 to 8. A simulator's cost
  // grows with the square of what is under way.
  void open_at_once(unsigned segments) { open_segments_ = segments; }
  // Transfers named from here on go under this tag.
  void under(Tag tag) { tag_ = tag; }

  // Each waits, segment by segment, for the step `after`, which is on the same elements, or on
  // others that have as many segments. That is how sums get their order, and how memory being sent
  // is kept from being overwritten.
  Step send(int to, Values, Step after = kStart);
  Step take(int from, Values into, Step after = kStart);  // overwrites
  // Joins what is there and what these send, in their order; the last of them is the step returned.
  // `ranks`: with it the total over so many ranks is complete; 0: it is a part that goes on to
  // another rank. See Total for what is rounded when.
  Step fold(std::span<const int> from, Values into, int ranks, Step after = kStart);
  Step fold(int from, Values into, int ranks = 0) { return fold({&from, 1}, into, ranks); }
  // The sum of their distances from `own`, which may be on its way to others meanwhile.
  Step fold_distances(std::span<const int> from, Values own, Values distances);
  // What else is done with each segment (elements of the step's own values, from 0) once it is
  // through, before any step that comes after goes on with it.
  void then(Step, std::function<void(Slice)>);

  // Runs the program and forgets it. TransportError if a peer is gone or late, or if its messages
  // have another size or type than expected here; no request stays open then either, and what was
  // to be received is undefined.
  void run();

 private:
  // Posted at once with one peer in one direction.
  static constexpr int kOpenSegments = 8;

  struct Posted {
    Pending pending;
    Step step = kStart;
    int segment = 0;
  };
  // All transfers with one peer in one direction, in order; their segments also end in order.
  struct Line {
    int peer;
    bool out;
    Step head = kStart, tail = kStart;  // the first not wholly posted; the last
    unsigned posted = 0, ended = 0;
    Posted open[kOpenSegments];  // segment i of the line at i mod kOpenSegments

    Posted& at(unsigned i) { return open[i % kOpenSegments]; }
  };
  struct Transfer {
    Values values;
    Combine combine;
    Tag tag;
    Step after;
    int line;
    int segments;
    int posted = 0, ended = 0;
    std::function<void(Slice)> then = nullptr;
    Step next = kStart;                                    // on the line
    Step first_follower = kStart, next_follower = kStart;  // after this one; after the same one
  };

  Step add(int peer, bool out, Values, Combine, Step after);
  Step join(std::span<const int> from, Values into, const Total&, Step after);
  int line_to(int peer, bool out);
  static Slice segment(const Transfer&, int);
  void post(Line&);
  void wait_for(Line&);
  void end(Line&, const Arrival&);
  TransportError wrong_size(int peer, Tag, std::size_t bytes, Values expected) const;
  void forget();

  Transport& transport_;
  Tag tag_;
  const std::size_t segment_bytes_;
  unsigned open_segments_ = kOpenSegments;
  std::forward_list<Total> totals_;  // of the transfers that fold
  std::vector<Transfer> transfers_;
  std::vector<Line> lines_;
  // The oldest open request of each line that has one, and whose it is. Only these are waited for.
  std::vector<Request> oldest_;
  std::vector<int> oldest_line_;
};

}  // namespace lockstep
