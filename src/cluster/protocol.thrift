// What a worker says to the coordinator, over framed binary Thrift. A connection serves one rank: hello, prove,
// then three rounds in which all ranks take part (join: who is where; offer: how to reach me; ready: I can reach
// all), each followed by roster until all have done so, then heartbeats, leave. Out of turn is refused.
namespace cpp lockstep.protocol

const i32 VERSION = 4

struct Member {
  1: i32 rank
  2: string host          // identity: ranks with equal ones can share memory
  3: string host_name     // for people
  4: i64 pid
  // From its offer:
  5: i32 memory_fd = -1   // a memory file that ranks of this host open as /proc/PID/fd/FD; -1: none
  6: list<binary> addresses  // one UCX address a lane; empty where UCX is not used
  // From its join:
  7: list<string> sources    // IPv4 addresses that its connections may come from; empty: not known
}

struct Death {
  1: i32 rank
  2: string reason  // completes "rank 3 died: ..."
}

// What a rank does not know yet.
struct News {
  1: list<Death> deaths   // oldest first
  2: list<i32> departed   // who left in good order, oldest first
  3: bool more            // ask again: not all fit into this reply
}

struct Roster {
  1: list<i32> missing      // the first few ranks not yet so far; empty: all are
  2: list<Member> members   // from the rank asked for on, as many as fit; only once none is missing
  3: list<Death> deaths     // the first ones, while some are missing
}

exception Refused {
  1: string why
}

service Control {
  // Returns the coordinator's nonce.
  binary hello(1: i32 version, 2: i32 rank, 3: i32 size, 4: binary nonce) throws (1: Refused refused)
  // Takes the worker's proof, returns the coordinator's.
  binary prove(1: binary proof) throws (1: Refused refused)
  void join(1: Member me) throws (1: Refused refused)
  void offer(1: i32 memory_fd, 2: list<binary> addresses) throws (1: Refused refused)
  void ready() throws (1: Refused refused)
  // Round 1: have all joined? 2: offered? 3: are all ready?
  Roster roster(1: i32 round, 2: i32 first) throws (1: Refused refused)
  // The deaths after the first `deaths` ones, and who left after the first `departed` ones.
  News heartbeat(1: i32 deaths, 2: i32 departed) throws (1: Refused refused)
  // status 0: in good order; 1: this rank failed because of rank `blamed`, or by itself (-1); 2: and
  // nobody may go on without it.
  void leave(1: i32 status, 2: i32 blamed, 3: string why) throws (1: Refused refused)
}
