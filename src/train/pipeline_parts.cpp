#include "train/pipeline_parts.h"

#include "collectives/gather.h"
#include "core/whole_file.h"
#include "replica/network.h"
#include "strategies/audit/audit.h"
#include "train/staged_learner.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kNumbers = channels::kModel;

Bytes bytes_of_all(std::vector<float>& numbers) {
  return {reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * sizeof(float)};
}

}  // namespace

std::unique_ptr<Learner> make_pipeline_learner(const Experiment& experiment, int rank,
                                               const OpenMemory& open, const ComputeTurns& turns) {
  if (experiment.hollow()) return make_hollow_stages(experiment, rank, open);
  const Pipelines& all = *experiment.pipelines;
  return make_staged_learner(experiment, rank,
                             {all.schedule, all.cut, all.pipeline_of(rank), all.worker_of(rank)},
                             network_for(experiment, turns), open, turns);
}

void prove_equal_parts(Transport& equals, Replica& replica) {
  std::string mine = checksum(replica.weights().bytes());
  for (const Parameter& parameter : replica.parameters()) mine += " " + parameter.name;
  if (text_of_first(equals, mine) != mine)
    throw AuditError(
        fmt::format("audit: rank {} averages with rank {}, which holds other stages of the network",
                    equals.job_rank(equals.rank()), equals.job_rank(0)));
}

std::vector<Model> models_at_first(Transport& line, const Model& mine) {
  const auto sizes = rows_at_first(line, {static_cast<double>(mine.weights.size()),
                                          static_cast<double>(mine.statistics.size())});
  std::vector<Model> all;
  if (line.rank() > 0) {
    Model copy = mine;
    for (std::vector<float>* numbers : {&copy.weights, &copy.statistics})
      line.wait(line.send(0, kNumbers, bytes_of_all(*numbers)));
    return all;
  }
  all.push_back(mine);
  for (int worker = 1; worker < line.size(); ++worker) {
    Model& theirs = all.emplace_back();
    theirs.weights.resize(static_cast<std::size_t>(sizes[worker][0]));
    theirs.statistics.resize(static_cast<std::size_t>(sizes[worker][1]));
    for (std::vector<float>* numbers : {&theirs.weights, &theirs.statistics})
      line.wait(line.recv(worker, kNumbers, bytes_of_all(*numbers)));
  }
  return all;
}

std::string save_joined_model(const Experiment& experiment, const std::vector<Model>& by_worker,
                              const std::string& path, const ComputeTurns& turns) {
  const auto whole = network_for(experiment, turns);
  const Pipelines& pipelines = *experiment.pipelines;
  join_parts(*whole, pipelines.schedule, pipelines.cut, by_worker);
  Network::Numbers numbers = whole->numbers();
  if (!path.empty()) {
    whole->save(path);
    if (experiment.config.audit) {
      const Network::Numbers read = whole->read_saved(path);
      if (read.parameters != numbers.parameters || read.buffers != numbers.buffers)
        throw AuditError(fmt::format(
            "audit: the network that was read back from {} is not the one that the stages hold",
            path));
    }
  }
  return checksum(bytes_of_all(numbers.parameters));
}

}  // namespace lockstep
