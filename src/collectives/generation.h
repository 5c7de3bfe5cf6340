// The ranks that take part in a run: an immutable value for one generation of members. Where a run
// goes on without ranks that it lost, survivors() gives the next generation.
#pragma once

#include <memory>
#include <vector>

#include "transport/group.h"

namespace lockstep {

class Generation {
 public:
  // All ranks of a job, of which the first `workers` work and the others serve. `managed`: the last
  // rank is a manager, which leads and without which there is no run. `job` outlives this.
  Generation(Transport& job, int workers, bool managed);

  // Collective over those that are left: waits for all of them, however late they come. A managed
  // generation asks its manager; others ask all ranks of the job. TransportError if no worker is
  // left, or no manager.
  Generation survivors() const;

  // All of them; the first keeps the records: the manager where there is one, else the lowest.
  Transport& present() const { return present_ ? *present_ : *job_; }
  // Those that work. REQUIRES: this rank works.
  Transport& workers() const { return *at_work_; }
  bool leads() const { return present().rank() == 0; }
  // Collective over those present. All wait for each other, however long that takes, so that nobody
  // waits for late ones when time or the transport's patience counts.
  void meet() const;
  // Ranks of the job, ascending: the members that work, and those that are lost.
  std::vector<int> working() const;
  std::vector<int> lost() const;
  int first_worker() const { return working().front(); }

 private:
  Generation(const Generation& before, std::vector<int> ranks);
  void form_groups();

  Transport* job_;
  int workers_;
  bool managed_;
  std::vector<int> ranks_;                    // of the job, ascending
  std::unique_ptr<Group> present_, at_work_;  // none: the whole job; this rank does not work
};

}  // namespace lockstep
