// The coordinator's end of one connection. Called on the server's thread only.
#pragma once

#include <string>

#include "cluster/Control.h"
#include "cluster/job_key.h"
#include "cluster/members.h"

namespace lockstep {

class ControlHandler final : public protocol::ControlIf {
 public:
  // Both outlive this.
  ControlHandler(Members& members, const std::string& key) : members_(members), key_(key) {}
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

 private:
  enum class Stage { stranger, greeted, proven, joined, left };
  void expect(Stage) const;  // throws Refused if it is not this call's turn

  Members& members_;
  const std::string& key_;
  Stage stage_ = Stage::stranger;
  Transcript transcript_;
};

}  // namespace lockstep
