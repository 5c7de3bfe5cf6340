// A strategy of one's own whose workers go apart, for example 5. A worker sends its gradient to a
// server, which steps with it at once and answers with the weights that it has then: nobody waits
// for another worker. (Lockstep's own `asp` also has several servers, and goes on when a worker
// dies.)
#pragma once

#include <lockstep/lockstep.h>

class PushPull final : public lockstep::Strategy,
                       public lockstep::Apart,
                       public lockstep::Serving,
                       public lockstep::ExchangeProofs {
 public:
  explicit PushPull(const lockstep::Crew& crew)
      : Strategy(crew, {.serving = this, .apart = this, .proofs = this}) {}

  // On a worker. What book_ and proof_ are told costs nothing where the audit is off.
  void update(lockstep::Replica& replica, const lockstep::Step& step) override {
    if (!has_samples(step)) return;
    const lockstep::Projection pushed = proof_.of(replica.gradients());
    book_.owes({{1, pushed}});
    book_.pushed(pushed);
    book_.takes(talk(replica, {step.number, 0, pushed}));
  }
  // After its last step: all go on with what the server came to.
  void rest(lockstep::Replica& replica) override { book_.takes(talk(replica, {0, 1, {}})); }
  bool steps_own_weights() const override { return false; }  // the server does

  // On the server, until all workers rest.
  void serve(lockstep::Replica& replica, const lockstep::StepAt&, std::uint64_t,
             std::uint64_t) override {
    lockstep::Transport& peers = crew_.rank.peers;
    std::vector<Word> words(crew_.workers);
    std::vector<lockstep::Pending> open;
    std::vector<int> whose;
    for (int w = 0; w < crew_.workers; ++w) {
      open.push_back(peers.recv(w, kWord, lockstep::bytes_of(words[w])));
      whose.push_back(w);
    }
    while (!open.empty()) {
      std::vector<lockstep::Request> requests;
      for (const lockstep::Pending& word : open) requests.push_back(word.request());
      const lockstep::Ending ending = peers.wait_any(requests, peers.patience());
      ending.or_throw();  // a worker that is gone ends this run
      const std::size_t i = ending.index;
      const int w = whose[i];
      open[i].ended();
      if (words[w].rests) {
        open.erase(open.begin() + i);
        whose.erase(whose.begin() + i);
        continue;
      }
      peers.wait(peers.recv(w, kGradients, replica.gradients().bytes()));
      proof_.expect("gradients that came", replica.gradients(), {{1, words[w].gradients}});
      replica.apply_gradients(words[w].step);
      give(w, replica.weights());
      open[i] = peers.recv(w, kWord, lockstep::bytes_of(words[w]));
    }
    for (int w = 0; w < crew_.workers; ++w) give(w, replica.weights());
  }

 private:
  // Numbers that the library leaves to programs of one's own.
  static constexpr lockstep::Tag kWord = lockstep::own_channel(lockstep::Purpose::control, 0),
                                 kProof = lockstep::own_channel(lockstep::Purpose::control, 1),
                                 kGradients = lockstep::own_channel(lockstep::Purpose::gradients),
                                 kWeights = lockstep::own_channel(lockstep::Purpose::weights);
  struct Word {
    std::uint64_t step, rests;
    lockstep::Projection gradients;  // what they project to, for the audit
  };

  // Returns what the server says of the weights that it answers with.
  lockstep::Projection talk(lockstep::Replica& replica, Word word) {
    lockstep::Transport& peers = crew_.rank.peers;
    const int server = crew_.rank_of_server(0);
    lockstep::Projection of_weights;
    peers.wait(peers.send(server, kWord, lockstep::bytes_of(word)));
    if (!word.rests) peers.wait(peers.send(server, kGradients, replica.gradients().bytes()));
    peers.wait(peers.recv(server, kProof, lockstep::bytes_of(of_weights)));
    peers.wait(peers.recv(server, kWeights, replica.weights().bytes()));
    book_.arrived();
    return of_weights;
  }
  void give(int worker, lockstep::Values weights) {
    lockstep::Projection of_weights = proof_.of(weights);
    crew_.rank.peers.wait(crew_.rank.peers.send(worker, kProof, lockstep::bytes_of(of_weights)));
    crew_.rank.peers.wait(crew_.rank.peers.send(worker, kWeights, weights.bytes()));
  }
};

// What the trainer must know before it makes one, and what it should refuse.
inline const lockstep::StrategyRow kPushPull{
    .name = "push-pull",
    .exchange = lockstep::Exchange::stepping_servers,
    .pace = lockstep::Pace::apart,
    .steps = lockstep::Steps::added,
    .maker = [](const lockstep::Options&) -> lockstep::StrategyMaker {
      return {.make = [](const lockstep::Crew& crew) { return std::make_unique<PushPull>(crew); },
              .refuse =
                  [](const lockstep::RunTerms& run) {
                    if (run.servers != 1) throw lockstep::UsageError("push-pull has one server");
                  }};
    }};
