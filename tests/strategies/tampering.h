// Changes numbers on their way out, where the audit should see it.
#pragma once

#include <deque>
#include <functional>

#include "transport/decorators/decorator.h"

namespace lockstep::testing {

// Adds one to a number of every message under these tags.
struct Tamper {
  std::function<bool(Tag)> where;
  std::size_t number = 3;
};

class Tampering final : public Decorator {
 public:
  Tampering(Transport& inner, Tamper tamper) : Decorator(inner), tamper_(std::move(tamper)) {}
  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    if (!tamper_.where(tag) || bytes.size < (tamper_.number + 1) * sizeof(float))
      return Decorator::post_send(to, tag, bytes);
    auto& copied = copies_.emplace_back(bytes.data, bytes.data + bytes.size);
    reinterpret_cast<float*>(copied.data())[tamper_.number] += 1;
    return Decorator::post_send(to, tag, {copied.data(), copied.size()});
  }

 private:
  const Tamper tamper_;
  std::deque<std::vector<std::byte>> copies_;
};

}  // namespace lockstep::testing
