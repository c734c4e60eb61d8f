#include "validator/cuda/nccl.h"

#include <fmt/format.h>

#include <utility>

#include "validator/cuda/library.h"

namespace headroom::gpu {
namespace {

// The part of NCCL's stable binary interface that is used here; the CUDA Toolkit does not bring its header.
using Code = int;
using Comm = void*;
enum class Type : int { int8 = 0, uint8 = 1, int32 = 2, int64 = 4, fp16 = 6, fp32 = 7, fp64 = 8, bf16 = 9 };

struct Api {
  Code (*version)(int*) = nullptr;
  Code (*unique_id)(GroupId*) = nullptr;
  Code (*init_rank)(Comm*, int, GroupId, int) = nullptr;
  Code (*destroy)(Comm) = nullptr;
  Code (*abort)(Comm) = nullptr;
  const char* (*error_string)(Code) = nullptr;
  const char* (*last_error)(Comm) = nullptr;
  Code (*all_reduce)(const void*, void*, std::size_t, Type, int, Comm, cudaStream_t) = nullptr;
  Code (*all_gather)(const void*, void*, std::size_t, Type, Comm, cudaStream_t) = nullptr;
  Code (*reduce_scatter)(const void*, void*, std::size_t, Type, int, Comm, cudaStream_t) = nullptr;
  Code (*broadcast)(const void*, void*, std::size_t, Type, int, Comm, cudaStream_t) = nullptr;
  Code (*send)(const void*, std::size_t, Type, int, Comm, cudaStream_t) = nullptr;
  Code (*receive)(void*, std::size_t, Type, int, Comm, cudaStream_t) = nullptr;
  Code (*group_start)() = nullptr;
  Code (*group_end)() = nullptr;
};

Result<Api> load() {
  HEADROOM_ASSIGN(Library library, Library::open("NCCL", {"libnccl.so.2"}));
  Api api;
  HEADROOM_TRY(library.find("ncclGetVersion", api.version));
  HEADROOM_TRY(library.find("ncclGetUniqueId", api.unique_id));
  HEADROOM_TRY(library.find("ncclCommInitRank", api.init_rank));
  HEADROOM_TRY(library.find("ncclCommDestroy", api.destroy));
  HEADROOM_TRY(library.find("ncclCommAbort", api.abort));
  HEADROOM_TRY(library.find("ncclGetErrorString", api.error_string));
  HEADROOM_TRY(library.find("ncclGetLastError", api.last_error));
  HEADROOM_TRY(library.find("ncclAllReduce", api.all_reduce));
  HEADROOM_TRY(library.find("ncclAllGather", api.all_gather));
  HEADROOM_TRY(library.find("ncclReduceScatter", api.reduce_scatter));
  HEADROOM_TRY(library.find("ncclBroadcast", api.broadcast));
  HEADROOM_TRY(library.find("ncclSend", api.send));
  HEADROOM_TRY(library.find("ncclRecv", api.receive));
  HEADROOM_TRY(library.find("ncclGroupStart", api.group_start));
  HEADROOM_TRY(library.find("ncclGroupEnd", api.group_end));
  return api;
}

Result<const Api*> api() {
  static const Result<Api> loaded = load();
  if (!loaded) return fail(loaded.error());
  return &*loaded;
}

Status checked(const Api& api, Code code, const char* call) {
  if (code == 0) return {};
  const char* detail = api.last_error(nullptr);
  return fail(Error{.message = fmt::format("{} gave {} ({})", call, api.error_string(code),
                                           detail && *detail ? detail : "no detail"),
                    .file = {},
                    .key = {},
                    .kind = Error::Kind::incomplete});
}

Result<Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return Type::fp32;
    case DType::fp16:
      return Type::fp16;
    case DType::bf16:
      return Type::bf16;
    case DType::fp64:
      return Type::fp64;
    case DType::int64:
      return Type::int64;
    case DType::int32:
      return Type::int32;
    case DType::int8:
      return Type::int8;
    default:
      return Type::uint8;  // bytes travel as they are
  }
}

int operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return 0;
    case Reduction::max:
      return 2;
    case Reduction::average:
      return 4;
  }
  return 0;
}

}  // namespace

Result<GroupId> Communicator::make_id() {
  HEADROOM_ASSIGN(const Api* calls, api());
  GroupId id;
  HEADROOM_TRY(checked(*calls, calls->unique_id(&id), "ncclGetUniqueId"));
  return id;
}

Result<Communicator> Communicator::join(const GroupId& id, int ranks, int rank) {
  HEADROOM_ASSIGN(const Api* calls, api());
  Comm comm = nullptr;
  HEADROOM_TRY(checked(*calls, calls->init_rank(&comm, ranks, id, rank), "ncclCommInitRank"));
  return Communicator(comm, ranks, rank);
}

Status Communicator::close() {
  HEADROOM_ASSIGN(const Api* calls, api());
  void* handle = std::exchange(handle_, nullptr);
  return handle == nullptr ? Status{} : checked(*calls, calls->destroy(handle), "ncclCommDestroy");
}

Status Communicator::abandon() {
  HEADROOM_ASSIGN(const Api* calls, api());
  void* handle = std::exchange(handle_, nullptr);
  return handle == nullptr ? Status{} : checked(*calls, calls->abort(handle), "ncclCommAbort");
}

Communicator::~Communicator() {
  static_cast<void>(abandon());  // only after a failure, which is what is reported
}

Status Communicator::all_reduce(const void* in, void* out, std::int64_t n, DType dtype, Reduction reduction,
                                cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->all_reduce(in, out, n, type, operation(reduction), handle_, stream),
                 "ncclAllReduce");
}

Status Communicator::all_gather(const void* in, void* out, std::int64_t n, DType dtype, cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->all_gather(in, out, n, type, handle_, stream), "ncclAllGather");
}

Status Communicator::reduce_scatter(const void* in, void* out, std::int64_t n, DType dtype,
                                    Reduction reduction, cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->reduce_scatter(in, out, n, type, operation(reduction), handle_, stream),
                 "ncclReduceScatter");
}

Status Communicator::broadcast(const void* in, void* out, std::int64_t n, DType dtype, int root,
                               cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->broadcast(in, out, n, type, root, handle_, stream), "ncclBroadcast");
}

Status Communicator::all_to_all(const void* in, void* out, std::int64_t n, DType dtype, cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  const std::int64_t chunk = bytes_of(dtype, n);
  HEADROOM_TRY(checked(*calls, calls->group_start(), "ncclGroupStart"));
  Status first;
  for (int peer = 0; peer < ranks_; ++peer) {
    Status sent = send(static_cast<const char*>(in) + peer * chunk, n, dtype, peer, stream);
    Status received = receive(static_cast<char*>(out) + peer * chunk, n, dtype, peer, stream);
    if (first && !sent) first = sent;
    if (first && !received) first = received;
  }
  Status ended = checked(*calls, calls->group_end(), "ncclGroupEnd");
  return first ? ended : first;
}

Status Communicator::send(const void* in, std::int64_t n, DType dtype, int peer, cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->send(in, n, type, peer, handle_, stream), "ncclSend");
}

Status Communicator::receive(void* out, std::int64_t n, DType dtype, int peer, cudaStream_t stream) {
  HEADROOM_ASSIGN(const Api* calls, api());
  HEADROOM_ASSIGN(const Type type, type_of(dtype));
  return checked(*calls, calls->receive(out, n, type, peer, handle_, stream), "ncclRecv");
}

Result<std::string> nccl_version() {
  HEADROOM_ASSIGN(const Api* calls, api());
  int v = 0;
  HEADROOM_TRY(checked(*calls, calls->version(&v), "ncclGetVersion"));
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace headroom::gpu
