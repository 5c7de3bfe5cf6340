// Which gradients travel together, and when. They are cut into buckets, runs of whole tensors (see
// buckets.h), which go one after the other in the order of a plan: with overlap each as soon as all
// its gradients are final, while backward still runs; else all when the exchange ends.
//
// A measured plan: in the first exchanges each tensor goes alone, and then all go together. From
// how long that took, and from when gradients were final, comes the plan that would have ended
// first (merged_best()).
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "strategies/buckets.h"
#include "strategies/figures.h"
#include "strategies/strategy.h"

namespace lockstep {

// Belongs to the rank's thread.
class BucketFeed {
 public:
  // That bucket of the plan goes now: its gradients are final, and all before it have gone. Called
  // inside ready(), so that it neither blocks nor computes for long, or inside close().
  using Go = std::function<void(std::size_t bucket)>;
  // The plan of all that must have the same one: what is measured here goes in, what all go by
  // comes out. None: this rank's own.
  using Agree = std::function<std::string(const std::string&)>;

  // The clock outlives it.
  BucketFeed(Clock&, BucketRule, Go, Agree = {});

  // Once, before the first exchange: the tensors that the gradients are.
  void begin(std::span<const Parameter>);
  bool overlaps() const { return rule_.overlap; }
  const Buckets& buckets() const { return buckets_; }
  // How many gradients each of them has.
  std::vector<std::size_t> counts() const;
  // The same for the records: nothing is measured yet.
  std::vector<BucketFigures> figures() const;

  // An exchange begins. True: by another plan than the last. Collective where plans are agreed on.
  bool open();
  bool is_open() const { return is_open_; }
  // Is a plan being measured?
  bool is_on_trial() const { return rule_.measures_plan && exchanges_ <= kTrial; }
  // These are final. Each gradient is told at most once in an exchange, in any order.
  void ready(Slice);
  // All are: what has not gone goes, and the exchange ends.
  void close();

  // That many gradients took so long to be sent, for a plan that is measured.
  void took(std::size_t count, double seconds);

  // Of a measured plan: what it is, and how many exchanges it took to find it; else empty.
  std::string state() const;
  // True: it was saved inside the trial, whose times are gone, so that the trial begins anew and by
  // another plan.
  bool restore(const std::string&);
  // The state of who has this and something else, which comes behind.
  std::string state_with(const std::string& behind) const;
  std::string restore_from(const std::string& state);  // returns what is behind

 private:
  // Exchanges of a measured plan's trial: each tensor alone, then all at once. The first of either
  // is a warm-up.
  static constexpr std::uint64_t kAlone = 3, kTrial = 5;

  void note_ready(Slice);
  Buckets measured_plan() const;

  Clock& clock_;
  const BucketRule rule_;
  const Go go_;
  const Agree agree_;
  std::vector<Slice> slices_;  // of the tensors
  std::vector<TensorGradient> tensors_;
  Buckets buckets_;
  std::uint64_t exchanges_ = 0;
  std::map<std::size_t, double> took_s_;  // by bytes, the shortest
  // Of the exchange that is open.
  bool is_open_ = false;
  std::vector<std::size_t> missing_;  // of each bucket, gradients that are not final
  std::size_t next_ = 0;              // bucket to go
  double opened_s_ = 0;
};

// Exchanges of buckets, one after the other: jobs of the rank's background, or where they stand in
// line on the rank's own lane. Belongs to the rank's thread; what was posted and not waited for is
// waited for when it goes.
class BucketJobs {
 public:
  // Runs the exchange of a bucket on that lane. May block there.
  using Exchange = std::function<void(std::size_t bucket, Transport& lane)>;

  // `beside`: in the background. The rank outlives it.
  BucketJobs(const Rank&, const BucketRule&, bool beside, Exchange, BucketFeed::Agree = {});
  BucketJobs(const BucketJobs&) = delete;
  ~BucketJobs();

  BucketFeed& feed() { return feed_; }
  const BucketFeed& feed() const { return feed_; }
  // Opens the feed: see there.
  bool open();
  // Closes the feed, and returns when all exchanges are done. Throws what one of them threw.
  void finish();
  // So far: seconds in which exchanges went on while this rank did not wait for them.
  double hidden_s() const { return hidden_s_; }
  // The same of each bucket of the present plan.
  const std::vector<BucketFigures>& figures() const { return figures_; }

 private:
  struct Ran {
    double began_s = 0, ended_s = 0;
  };

  void go(std::size_t bucket);

  const Rank& rank_;
  const bool beside_;
  const Exchange exchange_;
  BucketFeed feed_;
  std::uint64_t last_job_ = 0;
  bool is_under_way_ = false;  // jobs are posted that nobody has waited for
  std::atomic<bool> abandoned_ = false;
  std::vector<Ran> ran_;  // by bucket, in the exchange that is open
  std::vector<BucketFigures> figures_;
  double hidden_s_ = 0;
};

}  // namespace lockstep
