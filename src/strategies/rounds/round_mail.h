// What the manager of rounds and its workers say to each other: short notes, and weights. The
// manager never waits for a given worker, so one that is slow or gone holds nobody up; both sides
// wait for as long as the other lives, since rounds take as long as they take.
//
//   worker:  wants     → manager, when there is one: granted (a task), then the round's model;
//                        or over: there are no more rounds
//   worker:  hands_in  → manager: granted, then the worker sends its model; or refused: too late
//   manager: refused   → unasked, to a worker whose task's round is over, in place of the answer
//                        to its hands_in
//
// A task is a number: which samples it has every rank knows from the plan of the run. Models travel
// in these messages, or as files in a folder that all share.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/values.h"
#include "strategies/audit/projection.h"
#include "transport/transport.h"

namespace lockstep {

// What a model projects to, for the audit; both zero without it.
struct RoundProof {
  Projection weights, statistics;
};

struct RoundNote {
  enum class Kind : std::uint32_t { wants, hands_in, granted, refused, over };
  Kind kind = Kind::wants;
  std::int32_t task = 0;
  std::uint64_t round = 0;
  RoundProof proof = {};  // of the model that follows this note, or goes as a file
  // Of the answer to `wants`: how long the worker waited for it in time that is nobody's training
  // time, between two rounds.
  double aside_s = 0;
  // Of `hands_in`: the mean loss over so many samples.
  double loss = 0;
  std::uint64_t samples = 0;
};

// What travels. The memory is somebody else's.
struct RoundModel {
  Values weights;
  Values statistics = Values(nullptr, 0, Type::fp32);  // of batch norm and its like
};

// A copy that lives for as long as somebody sends it. Hollow where the model is.
class ModelCopy {
 public:
  explicit ModelCopy(const RoundModel&);
  RoundModel view() const;

 private:
  const std::size_t count_;
  mutable std::vector<float> weights_, statistics_;
};

class ManagerMail {
 public:
  // Workers are ranks 0 to `workers` - 1.
  ManagerMail(Transport& peers, int workers);
  ManagerMail(const ManagerMail&) = delete;

  struct Event {
    enum class Kind { note, model, gone } kind = Kind::note;
    int worker = 0;
    RoundNote note = {};
  };
  // What comes next: a note, a whole model that was to be taken, or that a worker is gone, which is
  // the last of it. A worker's notes come in order; its next note may come before its model. None:
  // nothing until the deadline, or no worker is left.
  std::optional<Event> next(Deadline);

  bool has(int worker) const { return workers_[worker].here; }
  int present() const;

  // Sends the note, and after it the model if there is one. Nothing happens if the worker is gone.
  void answer(int worker, const RoundNote&, const std::shared_ptr<const ModelCopy>& = nullptr);
  // After a `hands_in` that was granted: the model goes there, which stays in place until it came.
  void take(int worker, const RoundModel& into);

 private:
  struct Worker {
    bool here = true;
    int parts = 0;  // of its model that are still to come
    std::unique_ptr<RoundNote> note = std::make_unique<RoundNote>();
  };
  enum class What { note, part, sent };
  struct Open {
    std::shared_ptr<const void> kept;  // what is being sent
    int worker;
    What what;
    Pending pending;
  };

  void expect_note(int worker);
  void send(int worker, Tag, ConstBytes, std::shared_ptr<const void> kept);
  void ended(const Open&);
  void lose(int worker);

  Transport& peers_;
  std::vector<Worker> workers_;
  std::vector<Open> open_;
  std::deque<Event> events_;
};

class WorkerMail {
 public:
  WorkerMail(Transport& peers, int manager) : peers_(peers), manager_(manager) {}

  // Asks for a task and waits until there is one: granted, or over.
  RoundNote want();
  // The model that follows a grant.
  void receive(const RoundModel& into);
  // Has this worker been told that its task's round is over? Never waits.
  bool is_refused();
  // Says `note`, a hands_in, and sends the model if that is granted and the model travels by
  // message. False: the result comes too late. Not after is_refused().
  bool hand_in(const RoundNote& note, const std::optional<RoundModel>& model);

 private:
  RoundNote ask(const RoundNote&);
  RoundNote next_answer();
  void wait(Pending&& pending);

  Transport& peers_;
  const int manager_;
};

// Models as files, in exchange/ of the run's folder; on several hosts that must be a shared folder.
// A file is written under another name, then renamed, and ends with a checksum, so that what is
// read is whole.
class RoundFiles {
 public:
  // Makes the folder.
  explicit RoundFiles(const std::string& run_folder);

  // Names of files: the model that a round starts from; what a worker made of a task.
  static std::string of_round(std::uint64_t round);
  static std::string of_result(std::uint64_t round, int task, int worker);

  void write(const std::string& name, const RoundModel&) const;
  // False: there is no such file. UsageError if it is damaged, or of another network.
  bool read(const std::string& name, const RoundModel& into) const;
  void remove(const std::string& name) const;

  // UsageError: `what` should be there and is not.
  [[noreturn]] void throw_not_shared(const std::string& what) const;

  // Removes the files of that round and of earlier ones, which nobody needs any more, but not a
  // file that a late worker is still writing.
  void remove_until(std::uint64_t round) const;
  void remove_all() const;

 private:
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
};

}  // namespace lockstep
