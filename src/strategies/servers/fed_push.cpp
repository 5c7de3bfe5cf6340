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
  sent_ = 0;
  has_computed_ = false;
}

std::uint32_t FedPush::finish() {
  {
    const std::lock_guard hold(crew_.rank.lock);
    has_computed_ = true;
  }
  jobs_.finish();
  return number_;
}

void FedPush::send(std::size_t b, Transport& lane) {
  if (b < sent_) return;  // it went with the one before
  {
    const std::lock_guard hold(crew_.rank.lock);
    // A trial times each bucket by itself.
    sent_ = has_computed_ && !feed().is_on_trial() ? feed().buckets().size() : b + 1;
  }
  for (std::size_t i = b; i < sent_; ++i) {
    const Slice bucket = feed().buckets()[i];
    const Values numbers = numbers_->part(bucket);
    owed_ += proof_.of(numbers, bucket.begin);
    if (share_ != 1) scale(numbers, share_);
  }
  std::vector<Parts> parts;
  for (int k = 0; k < crew_.servers; ++k) parts.push_back(parts_for(k, b, sent_));
  std::vector<Pending> sent;
  // Each worker begins with another server, so that not all push to the same one first.
  for (int i = 1; i <= crew_.servers; ++i) {
    const int k = (lane.rank() + i) % crew_.servers;
    if (b == 0) opening_.send(lane, crew_.rank_of_server(k), sent);
    send_to(crew_.rank_of_server(k), parts[k], lane, sent);
  }
  for (Pending& one : sent)
    if (one) wait_while_it_lives(lane, one);
}

FedPush::Parts FedPush::parts_for(int k, std::size_t begin, std::size_t end) {
  Parts parts;
  for (std::size_t b = begin; b < end; ++b) {
    const Slice here = common(crew_.shard(k, numbers_->count()), feed().buckets()[b]);
    if (here.count == 0) continue;
    std::vector<PushMessage>& part = parts.emplace_back();
    for (const Slice piece : parts_of_push(code_, numbers_->part(here)))
      part.push_back(encoded(code_, numbers_->part({here.begin + piece.begin, piece.count}),
                             here.begin + piece.begin));
  }
  return parts;
}

// Once it has its turn all goes in it; and to one server after the other, as central.cpp says.
void FedPush::send_to(int server, const Parts& parts, Transport& lane, std::vector<Pending>& sent) {
  const std::size_t before = sent.size();
  CentralTurn messages = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (messages == 0 && parts[i].size() > 1) {
      for (std::size_t j = i; j < parts.size(); ++j) messages += parts[j].size();
      Pending turn = lane.recv(server, kCentralTurn, {});
      wait_while_it_lives(lane, lane.send(server, kCentralTurn, bytes_of(messages)));
      wait_while_it_lives(lane, turn);
    }
    for (const PushMessage& message : parts[i])
      sent.push_back(lane.send(server, message.tag, message.bytes));
  }
  for (std::size_t i = before; messages > 0 && i < sent.size(); ++i)
    wait_while_it_lives(lane, sent[i]);
}

}  // namespace lockstep
