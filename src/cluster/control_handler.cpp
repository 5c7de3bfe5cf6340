#include "cluster/control_handler.h"

#include "cluster/protocol_constants.h"
#include "core/error.h"

namespace lockstep {

namespace {

constexpr std::size_t kMissingNamed = 16;

[[noreturn]] void refuse(const std::string& why) {
  protocol::Refused refused;
  refused.why = why;
  throw refused;
}

template <class Action>
void or_refuse(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    refuse(error.what());
  }
}

}  // namespace

ControlHandler::~ControlHandler() {
  if (stage_ == Stage::joined) members_.closed(transcript_.rank);
}

void ControlHandler::expect(Stage stage) const {
  if (stage_ != stage) refuse("that call is out of turn");
}

void ControlHandler::hello(std::string& nonce, int32_t version, int32_t rank, int32_t size,
                           const std::string& worker_nonce) {
  expect(Stage::stranger);
  if (version != protocol::g_protocol_constants.VERSION)
    refuse(fmt::format(
        "the worker speaks version {} of the control protocol, the coordinator version {}: run the "
        "same program everywhere",
        version, protocol::g_protocol_constants.VERSION));
  if (worker_nonce.size() != kNonceBytes) refuse("a nonce has 32 bytes");
  transcript_ = {version, rank, size, worker_nonce, random_nonce()};
  nonce = transcript_.coordinator_nonce;
  stage_ = Stage::greeted;
}

void ControlHandler::prove(std::string& proof, const std::string& worker_proof) {
  expect(Stage::greeted);
  stage_ = Stage::stranger;  // one try a nonce
  if (!same_proof(worker_proof, proof_of(key_, Prover::worker, transcript_)))
    refuse("the job key is not this job's");
  proof = proof_of(key_, Prover::coordinator, transcript_);
  stage_ = Stage::proven;
}

void ControlHandler::join(const protocol::Member& me) {
  expect(Stage::proven);
  if (me.rank != transcript_.rank) refuse("the rank that joins must be the one that was proved");
  or_refuse([&] { members_.join(me, transcript_.size); });
  stage_ = Stage::joined;
}

void ControlHandler::offer(int32_t memory_fd, const std::vector<std::string>& addresses) {
  expect(Stage::joined);
  or_refuse([&] { members_.offer(transcript_.rank, memory_fd, addresses); });
}

void ControlHandler::ready() {
  expect(Stage::joined);
  members_.ready(transcript_.rank);
}

void ControlHandler::roster(protocol::Roster& roster, int32_t round, int32_t first) {
  expect(Stage::joined);
  members_.heard_from(transcript_.rank);
  roster.missing = members_.missing(round);
  if (roster.missing.empty()) {
    roster.members = members_.page(first);
    return;
  }
  roster.deaths = members_.news(0, 0).deaths;  // the first of them, which all fit into a reply
  if (roster.missing.size() > kMissingNamed) roster.missing.resize(kMissingNamed);
}

void ControlHandler::heartbeat(protocol::News& news, int32_t deaths, int32_t departed) {
  expect(Stage::joined);
  members_.heard_from(transcript_.rank);
  news = members_.news(deaths, departed);
}

void ControlHandler::leave(int32_t status, int32_t blamed, const std::string& why) {
  expect(Stage::joined);
  members_.leave(transcript_.rank, status, blamed, why);
  stage_ = Stage::left;
}

}  // namespace lockstep
