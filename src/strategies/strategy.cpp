#include "strategies/strategy.h"

#include <algorithm>
#include <istream>
#include <iterator>

#include "strategies/average.h"

namespace lockstep {

void Strategy::read_model(Replica& replica, Values model) {
  read_mean(crew_, replica.weights(), model, std::vector<double>(crew_.workers, 1));
}

double Strategy::mass() const {
  return std::ranges::binary_search(crew_.idle, crew_.rank.rank()) ? 0 : 1;
}

double Strategy::own_share(const Step& step) const {
  return crew_.one_batch ? shares_of(step.samples)[crew_.rank.rank()] : 1;
}

std::string with_state(std::string own, const std::string& behind) {
  return behind.empty() ? own : own + "\n" + behind;
}

std::string state_behind(std::istream& in) {
  if (in.peek() == '\n') in.get();
  return {std::istreambuf_iterator<char>(in), {}};
}

bool trains(const Strategy& strategy, const Step& step) {
  const Pooling* pooling = strategy.parts().pooling;
  return !pooling || pooling->trains(step);
}

Team team_of(const Strategy& strategy, const Step& step, int worker) {
  const Pooling* pooling = strategy.parts().pooling;
  return pooling ? pooling->team_of(step, worker) : Team{worker};
}

std::vector<std::size_t> samples_read(const Strategy& strategy, const Step& step) {
  std::vector<std::size_t> read(step.samples.size());
  for (int w = 0; w < std::ssize(read);) {
    const Team team = team_of(strategy, step, w);
    std::size_t all = 0;
    for (int member = 0; member < team.size; ++member) all += step.samples[w + member];
    for (int reader = 0; reader < team.readers; ++reader)
      read[w + reader] = chunk(all, team.readers, reader).count;
    w += team.size;
  }
  return read;
}

const Figures& figures_of(const Strategy& strategy) {
  static const Figures kNone;
  Measured* measured = strategy.parts().measured;
  return measured ? measured->figures() : kNone;
}

}  // namespace lockstep
