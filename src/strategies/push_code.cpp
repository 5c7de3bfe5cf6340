#include "strategies/push_code.h"

namespace lockstep {
namespace {

class PlainCode final : public PushCode {
 public:
  ConstBytes encode(Values numbers, std::size_t, std::vector<std::byte>&) override {
    return numbers.bytes();
  }
  std::size_t most_bytes(Values numbers) const override { return numbers.bytes().size; }
  std::uint8_t format(Values numbers) const override { return numbers.format(); }
  Bytes landing(Values into, std::vector<std::byte>&) const override { return into.bytes(); }
  bool decode(ConstBytes message, std::size_t, Values into) const override {
    return message.size == into.bytes().size;
  }
};

}  // namespace

Bytes PushCode::landing(Values into, std::vector<std::byte>& memory) const {
  const std::size_t most = most_bytes(into);
  if (into.is_hollow()) return {nullptr, most};
  memory.resize(most);
  return {memory.data(), memory.size()};
}

std::unique_ptr<PushCode> make_push_code(const Crew& crew) {
  return crew.push_codes ? crew.push_codes(crew) : std::make_unique<PlainCode>();
}

PushMessage encoded(PushCode& code, Values numbers, std::size_t first) {
  PushMessage message{Tag{Purpose::gradients}.with_format(code.format(numbers)), {}, {}};
  message.bytes = code.encode(numbers, first, message.memory);
  return message;
}

}  // namespace lockstep
