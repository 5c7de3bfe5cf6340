// A worker's push to the servers of a central model that begins while backward still runs: bucket
// by bucket (see bucket_feed.h), on the background's lane. It says to each server that it opens a
// push, and how that is cut, where that is news; then go the parts of each bucket that the servers
// hold, as they become final. The word that ends it, which says what else the worker wants and
// proves the numbers, is the strategy's: until it comes servers keep what they have, and then do
// with all of it what they do with any push. So one push is one update, as without overlap, and the
// same bits.
//
// Such pushes take no turns (see central_messages.h), and several workers' may come at once.
#pragma once

#include "strategies/bucket_feed.h"
#include "strategies/servers/central_messages.h"

namespace lockstep {

// Opens a push, and tells how it is cut, where that has changed.
class PushOpening {
 public:
  // This worker's `number`th push. Not while another's words are being sent.
  void write(std::uint32_t number, const Buckets& buckets, bool changed);
  // To that server. What it returns ends before write() is called again.
  void send(Transport& lane, int server, std::vector<Pending>& sent) const;

 private:
  CentralRequest word_;
  CentralPlan plan_;
  bool told_ = false;
};

// Belongs to the rank's thread.
class FedPush {
 public:
  // All outlive it.
  FedPush(const Crew&, PushCode&, const MixAudit&, const BucketRule&);

  // Once, before the first push: these are the numbers of every push.
  void begin(Values, std::span<const Parameter>);
  BucketFeed& feed() { return jobs_.feed(); }
  const BucketFeed& feed() const { return jobs_.feed(); }
  // This worker's `number`th push begins, of the numbers times `share`, as they become final.
  void open(std::uint32_t number, double share);
  // Returns when all is sent, and the numbers are what the servers made of them: its number.
  std::uint32_t finish();
  Values numbers() const { return *numbers_; }
  double share() const { return share_; }
  // Of the numbers as they were, for the audit.
  const Projection& proof() const { return owed_; }
  double hidden_s() const { return jobs_.hidden_s(); }

 private:
  void send(std::size_t bucket, Transport& lane);

  const Crew& crew_;
  PushCode& code_;
  const MixAudit& proof_;
  std::optional<Values> numbers_;
  PushOpening opening_;
  // Of the push that is open.
  std::uint32_t number_ = 0;
  double share_ = 1;
  Projection owed_;
  BucketJobs jobs_;  // the last: what is under way uses all of this
};

}  // namespace lockstep
