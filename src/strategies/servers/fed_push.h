// A worker's push to the servers of a central model that begins while backward still runs: bucket
// by bucket (see bucket_feed.h), on the background's lane. It says to each server that it opens a
// push, and how that is cut, where that is news; then go the parts of each bucket that the servers
// hold, as they become final. The word that ends it, which says what else the worker wants and
// proves the numbers, is the strategy's: until it comes servers keep what they have, and then do
// with all of it what they do with any push. So one push is one update, as without overlap, and the
// same bits.
//
// Turns (see central_messages.h): while backward runs a worker asks for one for each long part of a
// bucket, when its gradients are final; so nobody computes who has the turn. What is left when
// backward has ended goes as a push that waits for nothing does, all in one turn at each server.
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
  using Parts = std::vector<std::vector<PushMessage>>;  // each in the messages it goes in

  void send(std::size_t bucket, Transport& lane);
  // Where buckets begin..end have something for that server.
  Parts parts_for(int k, std::size_t begin, std::size_t end);
  void send_to(int server, const Parts&, Transport& lane, std::vector<Pending>& sent);

  const Crew& crew_;
  PushCode& code_;
  const MixAudit& proof_;
  std::optional<Values> numbers_;
  PushOpening opening_;
  // Of the push that is open.
  std::uint32_t number_ = 0;
  double share_ = 1;
  Projection owed_;
  std::size_t sent_ = 0;       // buckets: the job's
  bool has_computed_ = false;  // under the rank's lock: backward has ended
  BucketJobs jobs_;            // the last: what is under way uses all of this
};

}  // namespace lockstep
