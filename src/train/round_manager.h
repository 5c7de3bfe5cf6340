// The manager of a run in rounds: opens them, answers its workers, gathers their results, and
// scores what comes of them. It computes nothing itself while a round is open.
#pragma once

#include "cluster/tasks.h"
#include "strategies/round_strategy.h"
#include "train/session.h"
#include "train/weight_files.h"

namespace lockstep {

// Where the weights of a run travel as files: those. UsageError if the run is kept nowhere.
std::optional<WeightFiles> files_of(Session&);

class RoundManager {
 public:
  explicit RoundManager(Session&);
  // All rounds. TransportError: all workers are gone.
  void run();

  // What the run has come to.
  Model model();
  // After all ranks have met.
  void complete(TrainResult&);

 private:
  struct Came {  // what there is of a task's result
    std::unique_ptr<ModelCopy> model;
    RoundProof proof;
    bool whole = false;
  };

  // `aside_s`: since the last round, and nobody's training time.
  void open(std::uint64_t round, double aside_s);
  std::vector<RoundResult> gather(std::uint64_t round);
  // Is all there that there will be?
  bool complete(const RoundState&) const;
  void handle(const ManagerMail::Event&, std::uint64_t round);
  void answer(int worker, const RoundNote&, std::uint64_t round);
  void take_in(int worker, const RoundNote&, std::uint64_t round);
  void lose(int worker);
  void wake_idle(const RoundState&);
  std::vector<RoundResult> results_of(const RoundState&);
  void log(int epoch, const std::vector<RoundResult>&);
  void score(int epoch, const std::vector<RoundResult>&);
  void tell_all(const RoundWord&);
  // Until all have left: who took a task when there were some yet waits for an answer.
  void see_off();
  RoundModel view();
  double now() const { return session_.rank().clock.now(); }

  Session& session_;
  RoundStrategy& strategy_;
  const std::unique_ptr<TaskBoard> board_;
  const std::optional<WeightFiles> files_;
  ManagerMail mail_;
  Group alone_;
  Plan plan_;
  std::vector<float> statistics_;           // with the weights of this rank's replica: the model
  std::shared_ptr<const ModelCopy> given_;  // the round's, as it is handed out
  RoundProof proof_;                        // of it
  std::vector<Came> came_;                  // by task
  std::vector<int> delivers_;               // by worker: the task whose model is on its way, or -1
  double ended_ = 0;                        // when the last round did
  std::uint64_t reissued_ = 0, dropped_ = 0;
};

}  // namespace lockstep
