// What transport.h promises, over every transport: the suites are the files that are called
// *_contract_test.cpp; this is what they share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/values.h"
#include "decorated_worlds.h"

namespace lockstep::testing {

inline constexpr Tag kTag{Purpose::gradients, 7};
inline constexpr Tag kOther{Purpose::gradients, 8};

inline Bytes raw(std::vector<float>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(float)};
}

class TransportContract : public ::testing::TestWithParam<World> {
 protected:
  void run(int ranks, const Body& body) {
    FabricOptions options;
    options.patience_seconds = 60;
    GetParam().run(ranks, body, options);
  }
};

// Every transport, and loopback through every decorator.
inline std::vector<World> contract_worlds() {
  std::vector<World> all = worlds();
  for (const World& w : decorated_worlds()) all.push_back(w);
  return all;
}
inline std::string world_name(const ::testing::TestParamInfo<World>& info) {
  return info.param.name;
}

inline std::vector<Request> requests_of(const std::vector<Pending>& all) {
  std::vector<Request> requests;
  for (const Pending& pending : all) requests.push_back(pending.request());
  return requests;
}

// Runs a TransportError out of `f` and returns it.
template <class F>
TransportError error_of(F f) {
  try {
    f();
  } catch (const TransportError& e) {
    return e;
  }
  ADD_FAILURE() << "no TransportError";
  return {TransportError::Kind::dead, -1, ""};
}

}  // namespace lockstep::testing
