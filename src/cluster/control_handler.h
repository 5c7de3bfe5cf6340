// The coordinator's end of one connection. Called on the server's thread only.
#pragma once

#include <functional>
#include <string>

#include "cluster/Control.h"
#include "cluster/handshake.h"
#include "cluster/members.h"
#include "cluster/task_book.h"
#include "transport/awake_clock.h"

namespace lockstep {

class ControlHandler final : public protocol::ControlIf {
 public:
  // `clock`: what the book goes by. All outlive this.
  ControlHandler(Members& members, TaskBook& tasks, const std::string& key, AwakeClock& clock)
      : members_(members), tasks_(tasks), key_(key), clock_(clock) {}
  // The connection is gone.
  ~ControlHandler() override;

  // Has this end proved that it knows the key? If not, it is reaped.
  bool trusted() const { return stage_ != Stage::stranger && stage_ != Stage::greeted; }

  void hello(std::string& nonce, int32_t version, int32_t rank, int32_t size,
             const std::string& worker_nonce) override;
  void prove(std::string& proof, const std::string& worker_proof) override;
  void join(const protocol::Member&) override;
  void offer(int32_t memory_fd, const std::vector<std::string>& addresses) override;
  void ready() override;
  void roster(protocol::Roster&, int32_t round, int32_t first) override;
  void heartbeat(protocol::News&, int32_t deaths, int32_t departed) override;
  void leave(int32_t status, int32_t blamed, const std::string& why) override;

  // In task_calls.cpp.
  void prepare_round(int64_t round, int32_t tasks, double give_up_s, bool reissue) override;
  void add_indices(int32_t task, const std::string& indices) override;
  void begin_round() override;
  void look_at_round(protocol::Round&, int32_t first) override;
  void bury(int32_t rank) override;
  void take_back(int32_t task) override;
  void close_rounds() override;
  void take_task(protocol::Handed&) override;
  void task_page(std::string& indices, int64_t round, int32_t task, int64_t first) override;
  bool report_task(int64_t round, int32_t task, double loss, int64_t samples) override;

 private:
  enum class Stage { stranger, greeted, proven, joined, left };
  void expect(Stage) const;  // throws Refused if it is not this call's turn

  // Of a rank that has joined: runs it, and refuses what is a UsageError.
  void serve(const std::function<void(int rank)>& call);

  Members& members_;
  TaskBook& tasks_;
  const std::string& key_;
  AwakeClock& clock_;
  Stage stage_ = Stage::stranger;
  Transcript transcript_;
};

}  // namespace lockstep
