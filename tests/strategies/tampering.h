// Changes numbers on their way out, where the audit should see it.
#pragma once

#include <deque>
#include <functional>

#include "transport/decorators/decorator.h"
#include "transport/rank.h"

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

// The same on the lane of background jobs, which wait for what they send.
class TamperingBackground final : public Background {
 public:
  TamperingBackground(Background& inner, Tamper tamper)
      : inner_(inner), tamper_(std::move(tamper)) {}
  std::uint64_t post(Job job) override {
    return inner_.post([tamper = tamper_, job = std::move(job)](Transport& lane) {
      Tampering tampering(lane, tamper);
      job(tampering);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  Background& inner_;
  const Tamper tamper_;
};

}  // namespace lockstep::testing
