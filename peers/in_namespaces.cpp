// Runs a command once on each host of a cluster in network namespaces, as ranks of one job, and
// ends as they do:
//
//   in_namespaces netns:hosts=2,bandwidth=100Mbps COMMAND…
//
// Each finds RANK, WORLD_SIZE and the rest in its environment, and other hosts through eth0. Needs
// root.
#include <fmt/format.h>

#include "cluster/launch.h"
#include "core/error.h"
#include "train/cluster_spec.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc < 3) {
    fmt::print(stderr, "in_namespaces netns:hosts=N,bandwidth=B COMMAND…\n");
    return 2;
  }
  try {
    LaunchOptions options;
    NetnsOptions& netns = options.netns.emplace(netns_from(argv[1]));
    options.workers = ranks_in(argv[1], 0, 2);
    netns.hosts = options.workers / netns.ranks_per_host;
    options.command.assign(argv + 2, argv + argc);
    options.threads_per_worker = 1;
    return Launch(options).wait();
  } catch (const Error& e) {
    fmt::print(stderr, "in_namespaces: {}\n", e.what());
    return 2;
  }
}
