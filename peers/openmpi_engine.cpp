// Open MPI as an engine of `lockstep bench`: mpirun -n N openmpi_engine PIPES
// PIPES is the bench's folder of pipes. MPI_Allreduce in place, the algorithm being the library's
// own choice.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "bench/engine.h"
#include "core/error.h"

namespace lockstep::bench {
namespace {

MPI_Datatype datatype(Type type) {
  switch (type) {
    case Type::fp32:
      return MPI_FLOAT;
    case Type::fp64:
      return MPI_DOUBLE;
    case Type::int32:
      return MPI_INT32_T;
    case Type::int64:
      return MPI_INT64_T;
    default:
      throw UsageError(
          fmt::format("Open MPI has no {}: use fp32, fp64, int32 or int64", name_of(type)));
  }
}

class OpenMpiParticipant : public Participant {
 public:
  int rank() const override { return of(MPI_Comm_rank); }
  int size() const override { return of(MPI_Comm_size); }
  // Not MPI_Wtime(), which starts at another time in every process.
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  Bytes buffer(std::size_t bytes) override {
    if (buffer_.size() != bytes) buffer_ = std::vector<std::byte>(bytes);
    return {buffer_.data(), bytes};
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void all_reduce(const Work& work, Values values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.bytes().data, static_cast<int>(values.count()),
                  datatype(work.type), MPI_SUM, MPI_COMM_WORLD);
  }
  void send(int to, Bytes bytes, int messages) override {
    each(bytes, messages, [&](Bytes part, MPI_Request* request) {
      MPI_Isend(part.data, static_cast<int>(part.size), MPI_BYTE, to, 0, MPI_COMM_WORLD, request);
    });
  }
  void recv(int from, Bytes bytes, int messages) override {
    each(bytes, messages, [&](Bytes part, MPI_Request* request) {
      MPI_Irecv(part.data, static_cast<int>(part.size), MPI_BYTE, from, 0, MPI_COMM_WORLD, request);
    });
  }
  std::string chosen(const Work& work, Values) override {
    return work.operation == Operation::p2p ? "MPI_Isend" : "MPI_Allreduce";
  }

 private:
  static int of(int (*ask)(MPI_Comm, int*)) {
    int answer = 0;
    ask(MPI_COMM_WORLD, &answer);
    return answer;
  }
  template <class Post>
  static void each(Bytes bytes, int messages, const Post& post) {
    std::vector<MPI_Request> requests(messages);
    const std::size_t length = bytes.size / messages;
    for (int i = 0; i < messages; ++i) post(bytes.part(i * length, length), &requests[i]);
    MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
  }

  std::vector<std::byte> buffer_;
};

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  if (argc != 2) {
    std::fprintf(stderr, "usage: mpirun -n N openmpi_engine PIPES, as lockstep bench starts it\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  try {
    serve(argv[1], OpenMpiParticipant().rank(),
          [] { return std::make_unique<OpenMpiParticipant>(); });
  } catch (const std::exception&) {  // the bench has been told
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
