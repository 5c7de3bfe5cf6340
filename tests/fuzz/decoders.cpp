// Decoders of compressed messages as a libFuzzer program (`make fuzz`):
//
//   decoders --list                             the compressors there are
//   decoders --spec=topk --seeds=FOLDER         writes messages to start from
//   decoders --spec=topk FOLDER [libFuzzer's flags]
//
// An input is a count of numbers, in 2 bytes, and a message, which must decode or end in a
// TransportError. With the highest bit of the count the message is cut off or filled up with zeros
// to the length that is due, which few inputs have by chance. The sanitizers see to the rest.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "specs.h"

namespace lockstep {
namespace {

constexpr std::size_t kMost = 4096;  // numbers
constexpr std::size_t kHead = 2;     // bytes before the message

std::unique_ptr<Compressor> under_test;

std::string value_of(const char* flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], flag, std::strlen(flag)) == 0) return argv[i] + std::strlen(flag);
  return {};
}

void write_seeds(const std::string& folder) {
  for (const std::size_t count : odd_sizes()) {
    if (count > 2000) continue;
    const Message message = encoded(*under_test, normal_numbers(count, count));
    std::ofstream file(folder + "/message-of-" + std::to_string(count), std::ios::binary);
    file.put(static_cast<char>(count)).put(static_cast<char>(count >> 8));
    file.write(reinterpret_cast<const char*>(message.words.data()),
               static_cast<std::streamsize>(message.size));
  }
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace lockstep;
  for (int i = 1; i < *argc; ++i)
    if (std::string_view((*argv)[i]) == "--list") {
      for (const std::string& spec : message_specs()) fmt::print("{}\n", spec);
      std::exit(0);
    }
  under_test = compression(value_of("--spec=", *argc, *argv)).make();
  if (const std::string folder = value_of("--seeds=", *argc, *argv); !folder.empty()) {
    write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size < kHead) return 0;
  const std::size_t count = (data[0] + 256u * data[1]) % kMost;
  // Memory of just that size, so that a byte beyond it is seen.
  const std::size_t bytes = data[1] & 0x80 ? under_test->most_bytes(count) : size - kHead;
  const auto message = std::make_unique<std::byte[]>(bytes);
  std::memcpy(message.get(), data + kHead, std::min(bytes, size - kHead));
  Numbers into(count);
  const Draw of{1, 2, 3};
  try {
    under_test->decode({message.get(), bytes}, of, values(into));
    under_test->add({message.get(), bytes}, of, 0.5f, values(into));
  } catch (const TransportError&) {
    for (const float x : into)
      if (x != 0) std::abort();  // nothing is written before a message is found to be none
  }
  return 0;
}
