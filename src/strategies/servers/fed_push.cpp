#include "strategies/servers/fed_push.h"

#include <utility>

#include "transport/patient.h"

namespace lockstep {

void PushOpening::write(std::uint32_t number, const Buckets& buckets, bool changed) {
  plan_.clear();
  if (changed || !std::exchange(told_, true))
    for (const Slice bucket : buckets) plan_.push_back(bucket.count);
  word_ = {CentralRequest::Wants::opens, number, plan_.size()};
}

void PushOpening::send(Transport& lane, int server, std::vector<Pending>& sent) const {
  sent.push_back(lane.send(server, kCentralRequest, {&word_, sizeof word_}));
  if (!plan_.empty())
    sent.push_back(
        lane.send(server, kCentralPlan, {plan_.data(), plan_.size() * sizeof(plan_[0])}));
}

FedPush::FedPush(const Crew& crew, PushCode& code, const MixAudit& proof, const BucketRule& rule)
    : crew_(crew),
      code_(code),
      proof_(proof),
      jobs_(crew.rank, rule, true, [this](std::size_t b, Transport& lane) { send(b, lane); }) {}

void FedPush::begin(Values numbers, std::span<const Parameter> parameters) {
  numbers_ = numbers;
  jobs_.feed().begin(parameters);
}

void FedPush::open(std::uint32_t number, double share) {
  const bool changed = jobs_.open();
  opening_.write(number, feed().buckets(), changed);
  number_ = number;
  share_ = share;
  owed_ = {};
}

std::uint32_t FedPush::finish() {
  jobs_.finish();
  return number_;
}

void FedPush::send(std::size_t b, Transport& lane) {
  const Slice bucket = feed().buckets()[b];
  const Values numbers = numbers_->part(bucket);
  owed_ += proof_.of(numbers, bucket.begin);
  if (share_ != 1) scale(numbers, share_);
  std::vector<PushMessage> messages;
  messages.reserve(crew_.servers);
  std::vector<Pending> sent;
  // Each worker begins with another server, so that not all push to the same one first.
  for (int i = 1; i <= crew_.servers; ++i) {
    const int k = (lane.rank() + i) % crew_.servers, server = crew_.rank_of_server(k);
    if (b == 0) opening_.send(lane, server, sent);
    const Slice part = common(crew_.shard(k, numbers_->count()), bucket);
    if (part.count == 0) continue;
    const PushMessage& message =
        messages.emplace_back(encoded(code_, numbers_->part(part), part.begin));
    sent.push_back(lane.send(server, message.tag, message.bytes));
  }
  for (Pending& one : sent) wait_while_it_lives(lane, one);
}

}  // namespace lockstep
