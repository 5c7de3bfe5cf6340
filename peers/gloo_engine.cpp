// Gloo over TCP as an engine of `lockstep bench`:
//   RANK=r WORLD_SIZE=n gloo_engine PIPES STORE INTERFACE
// PIPES is the bench's folder of pipes, STORE a folder all ranks see, through which they meet, and
// INTERFACE the network device to listen on. Small and large sizes get different algorithms.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/engine.h"
#include "core/error.h"

namespace lockstep::bench {
namespace {

class GlooParticipant : public Participant {
 public:
  GlooParticipant(int rank, int size, const char* store_folder, const char* interface)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, size)) {
    gloo::transport::tcp::attr where;
    where.iface = interface;
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(store_folder);
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  Bytes buffer(std::size_t bytes) override {
    if (buffer_.size() != bytes) {
      small_.reset();
      unbound_.reset();
      buffer_ = std::vector<std::byte>(bytes);
      unbound_ = context_->createUnboundBuffer(buffer_.data(), bytes);
    }
    return {buffer_.data(), bytes};
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void all_reduce(const Work& work, Values values) override {
    switch (work.type) {
      case Type::fp32:
        return sum<float>(work, values);
      case Type::fp64:
        return sum<double>(work, values);
      case Type::int32:
        return sum<std::int32_t>(work, values);
      case Type::int64:
        return sum<std::int64_t>(work, values);
      default:
        throw UsageError(fmt::format("this engine has no {}: use fp32, fp64, int32 or int64",
                                     name_of(work.type)));
    }
  }
  void send(int to, Bytes bytes, int messages) override {
    const std::size_t length = bytes.size / messages;
    for (int i = 0; i < messages; ++i)
      unbound_->send(to, kSlot, offset(bytes) + i * length, length);
    for (int i = 0; i < messages; ++i) unbound_->waitSend();
  }
  void recv(int from, Bytes bytes, int messages) override {
    const std::size_t length = bytes.size / messages;
    for (int i = 0; i < messages; ++i)
      unbound_->recv(from, kSlot, offset(bytes) + i * length, length);
    for (int i = 0; i < messages; ++i) unbound_->waitRecv();
  }
  std::string chosen(const Work& work, Values) override {
    if (work.operation == Operation::p2p) return "tcp";
    return work.bytes <= kSmallBytes ? "halving-doubling" : "ring";
  }

 private:
  static constexpr std::uint64_t kSlot = 7;
  // Of ring, bcube, ring-chunked and halving-doubling, the last was fastest at 4 KiB (2 and 4
  // ranks) and ring at 100 MiB (2 ranks, by a small margin). Where they cross was not measured.
  static constexpr std::size_t kSmallBytes = 256 << 10;

  std::size_t offset(Bytes part) const { return part.data - buffer_.data(); }

  template <class T>
  void sum(const Work& work, Values values) {
    T* data = reinterpret_cast<T*>(values.bytes().data);
    if (work.bytes <= kSmallBytes) {
      // An object tied to one buffer, made once and run often.
      if (!small_)
        small_ = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(
            context_, std::vector<T*>{data}, static_cast<int>(values.count()));
      return small_->run();
    }
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data, values.count());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>));
    gloo::allreduce(options);
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<gloo::transport::UnboundBuffer> unbound_;
  std::unique_ptr<gloo::Algorithm> small_;
};

int number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : -1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  const int rank = number_from("RANK"), size = number_from("WORLD_SIZE");
  if (argc != 4 || rank < 0 || size <= rank) {
    std::fprintf(stderr,
                 "usage: RANK=r WORLD_SIZE=n gloo_engine PIPES STORE INTERFACE, as lockstep bench "
                 "starts it\n");
    return 2;
  }
  try {
    serve(argv[1], rank,
          [&] { return std::make_unique<GlooParticipant>(rank, size, argv[2], argv[3]); });
  } catch (const std::exception&) {  // the bench has been told
    return 1;
  }
  return 0;
}
