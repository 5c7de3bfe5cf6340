// What the manager of rounds and its workers say to each other directly: short notes, and weights.
// Neither side waits for a given worker, so one that is slow or gone holds nobody up; both wait for
// as long as the other side lives, since rounds take as long as they take.
//
//   worker:  wants(round, task)    → manager: granted, then the model; or refused: round is over
//   worker:  hands_in(round, task) → then its model, if models travel by message
//   manager: word                  → a worker that had nothing to do looks again
//   worker:  leaves                → it has heard that all is over, and asks no more
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/values.h"
#include "strategies/projection.h"
#include "transport/transport.h"

namespace lockstep {

// What a model projects to, for the audit; both zero without it.
struct RoundProof {
  Projection weights, statistics;
};

struct RoundNote {
  enum class Kind : std::uint32_t { wants, hands_in, granted, refused, leaves };
  Kind kind = Kind::wants;
  std::int32_t task = 0;
  std::uint64_t round = 0;
  RoundProof proof;  // of the model that comes or goes with it
};

// What the manager tells all: which round it is, and how long the time since the last one was that
// is nobody's training time.
struct RoundWord {
  std::uint64_t round = 0;
  double aside_s = 0;
  std::uint64_t over = 0;  // 1: there are no more rounds
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
  // What comes next: a note, a whole model that was to be taken, or that a worker is gone; each
  // worker's in order. None: nothing until the deadline, or no worker is left.
  std::optional<Event> next(Deadline);

  bool has(int worker) const { return workers_[worker].here; }
  int present() const;

  // A worker that waits looks again; one that doesn't will, once for every word.
  void word(int worker, const RoundWord&);
  // The answer to `wants`: with the model if there is one.
  void answer(int worker, const RoundNote&, const std::shared_ptr<const ModelCopy>&);
  // After `hands_in`: its model goes there, which stays in place until it has come.
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

  // Until the manager gives word.
  RoundWord await_word();
  // If it has: without waiting.
  std::optional<RoundWord> look_for_word();
  // Asks for the model of that round, which comes if `into` is given. The manager's answer.
  RoundNote ask(std::uint64_t round, int task, const std::optional<RoundModel>& into);
  // `model`: unless it travels otherwise.
  void hand_in(std::uint64_t round, int task, const RoundProof&,
               const std::optional<RoundModel>& model);
  void leave();

 private:
  void wait(Pending&& pending);

  Transport& peers_;
  const int manager_;
};

}  // namespace lockstep
