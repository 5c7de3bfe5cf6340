// Carries what passes between the workers of a pipeline, beside the computation: a message of some
// length moves only inside calls on its lane, at both ends (see transport.h), so a job on a
// background lane makes these calls while the rank computes. A send is not waited for before the
// batch is over, since its receiver may have other work first.
//
// Belongs to the rank's thread.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "measure/ledger.h"
#include "train/learner.h"
#include "transport/rank.h"

namespace lockstep {

class Carrier {
 public:
  // `worker`: this rank among the workers of its pipeline, in their order (see rank_group.h). Its
  // first background lane is the carrier's own. It outlives this; the learner does, too.
  explicit Carrier(Rank& worker) : worker_(worker) {}
  Carrier(const Carrier&) = delete;
  ~Carrier();

  // A batch begins; `test`: of the test set, which the ledger counts apart.
  void open(bool test);
  // From now on these are received. The number returned counts the calls of a batch, from 0.
  std::size_t expect(std::vector<Passage>);
  // Until all that was expected in that call is there. Throws a TransportError that names who is
  // gone, or late.
  void await(std::size_t call);
  void send(std::vector<Passage>);
  // The batch is over: until all is on its way. Throws as await().
  void close();

  // So far: seconds in which the rank could not go on.
  double waited_s() const { return waited_s_; }

 private:
  static constexpr std::size_t kNoCall = -1;
  struct Parcel {
    Passage passage;
    std::size_t call = kNoCall;  // that waits for it; none: it is sent
    Pending under_way = {};
  };

  void tell(std::vector<Parcel>, bool last = false);
  Tag tag_of(const Passage&) const;

  // On the lane.
  void carry(Transport& lane);
  // Takes over what the rank has told. False: nothing is left to do.
  bool take_orders(Transport& lane, std::vector<Parcel>& open);
  void note(const Parcel& arrived);
  void wake_rank();

  Rank& worker_;
  bool test_ = false;
  std::uint64_t job_ = 0;
  bool is_open_ = false;
  double waited_s_ = 0;
  // Under the rank's lock.
  std::vector<Parcel> orders_;
  std::vector<std::size_t> missing_;  // by call
  bool last_ = false;                 // there will be no further orders
  bool gives_up_ = false;
  bool failed_ = false;
  std::optional<double> waits_since_;  // the rank waits to be woken
};

}  // namespace lockstep
