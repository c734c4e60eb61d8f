#include "validator/calibrate/process_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include "validator/cuda/cublas.h"
#include "validator/cuda/group.h"
#include "validator/cuda/nccl.h"
#include "validator/cuda/nvml.h"
#include "validator/kernels/elementwise.h"
#include "validator/kernels/transfer.h"
#include "validator/memory/gpu_device.h"

namespace headroom::gpu {
namespace {

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version / 10 % 100);
}

// The bus address without making a context.
Result<std::string> bus_of(int ordinal) {
  char text[32] = {};
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceGetPCIBusId(text, sizeof(text), ordinal)));
  return std::string(text);
}

Status measure_cublas(Measurements& out, MemoryLog& log) {
  auto cublas = Cublas::create();
  if (!cublas) {
    out.notes.push_back(cublas.error().message);
    return {};
  }
  HEADROOM_TRY(log.record("cublas handle"));
  HEADROOM_ASSIGN(out.versions["cublas"], cublas->version());
  constexpr std::int64_t kSide = 2048;
  HEADROOM_ASSIGN(const DeviceBlock workspace, make_device_block(default_cublas_workspace(9)));
  HEADROOM_ASSIGN(const DeviceBlock matrices, make_device_block(3 * kSide * kSide * 4));
  HEADROOM_TRY(log.record("workspace and matrices"));
  HEADROOM_TRY(cublas->bind(nullptr, workspace.get(), default_cublas_workspace(9)));
  for (DType dtype : {DType::bf16, DType::fp32}) {
    auto* a = static_cast<char*>(matrices.get());
    HEADROOM_TRY(cublas->multiply({.a = a,
                                   .b = a + kSide * kSide * 4,
                                   .d = a + 2 * kSide * kSide * 4,
                                   .dtype = dtype,
                                   .m = kSide,
                                   .n = kSide,
                                   .k = kSide}));
    HEADROOM_TRY(log.record(fmt::format("first {} product", name(dtype))));
  }
  return {};
}

// A captured graph of `nodes` kernels, launched once.
Status measure_graph(int nodes, MemoryLog& log) {
  constexpr std::int64_t kElements = 1 << 16;
  HEADROOM_ASSIGN(const StreamHandle stream, make_stream());
  HEADROOM_ASSIGN(const DeviceBlock block, make_device_block(kElements * 4));
  HEADROOM_TRY(log.record("stream and block"));
  HEADROOM_TRY(HEADROOM_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal)));
  Status launched;
  for (int i = 0; i < nodes && launched; ++i) {
    launched = scale_shift(block.get(), 1.0f, 0.0f, block.get(), DType::fp32, kElements, stream.get());
  }
  cudaGraph_t raw = nullptr;
  HEADROOM_TRY(HEADROOM_CUDA(cudaStreamEndCapture(stream.get(), &raw)));
  const GraphHandle graph(raw);
  HEADROOM_TRY(launched);
  cudaGraphExec_t raw_exec = nullptr;
  HEADROOM_TRY(HEADROOM_CUDA(cudaGraphInstantiate(&raw_exec, graph.get(), 0)));
  const GraphExecHandle exec(raw_exec);
  HEADROOM_TRY(HEADROOM_CUDA(cudaGraphLaunch(exec.get(), stream.get())));
  HEADROOM_TRY(HEADROOM_CUDA(cudaStreamSynchronize(stream.get())));
  return log.record(fmt::format("graph of {} kernels", nodes));
}

}  // namespace

Status MemoryLog::record(std::string action) {
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  out_.memory.push_back({.action = std::move(action), .used = use.used, .added = use.used - last_});
  last_ = use.used;
  return {};
}

Result<Card> measure_process(int ordinal, Measurements& out, MemoryLog& log) {
  HEADROOM_TRY(card_count());
  HEADROOM_ASSIGN(const std::string bus, bus_of(ordinal));
  auto nvml = Nvml::open(bus);
  if (nvml) {
    HEADROOM_ASSIGN(const CardMemory before, nvml->memory());
    out.used_by_others = before.used;
    HEADROOM_ASSIGN(out.versions["driver"], nvml->driver_version());
  } else {
    out.notes.push_back(
        nvml.error().message +
        "; memory that other processes hold on the card is not known and counts as this one's");
  }
  HEADROOM_ASSIGN(Card card, open_card(ordinal));
  out.gpu = card.name;
  out.multiprocessors = card.multiprocessors;
  out.total_memory = card.memory;
  out.host_memory = static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  out.versions["cuda"] = cuda_version(card.runtime_cuda);
  out.versions["driver_cuda"] = cuda_version(card.driver_cuda);
  HEADROOM_TRY(log.record("context"));
  if (nvml) {
    HEADROOM_ASSIGN(const CardMemory after, nvml->memory());
    HEADROOM_ASSIGN(const Bytes own, nvml->process_memory(static_cast<unsigned>(::getpid())));
    out.memory.push_back({"context by nvml, whole card", after.used, after.used - out.used_by_others});
    out.memory.push_back({"context by nvml, this process", own, own});
    out.memory.push_back({"reserved by the driver", after.reserved, after.reserved});
  }
  Streams streams;
  HEADROOM_ASSIGN(const GpuDevice device, GpuDevice::create(streams));
  out.granularity = device.granularity();
  {
    HEADROOM_ASSIGN(const DeviceBlock one, make_device_block(1));
    HEADROOM_TRY(log.record("one byte"));
    HEADROOM_TRY(fill(one.get(), 1, DType::uint8, 1, nullptr));
    HEADROOM_TRY(log.record("first kernel"));
  }
  HEADROOM_TRY(log.record("one byte given back"));
  HEADROOM_TRY(measure_cublas(out, log));
  HEADROOM_TRY(log.record("cublas handle given back"));
  for (int nodes : {16, 256, 2048}) HEADROOM_TRY(measure_graph(nodes, log));
  HEADROOM_TRY(log.record("graphs given back"));
  return card;
}

Status measure_communicators(launch::Rendezvous& ranks, Measurements& out, MemoryLog& log) {
  auto version = nccl_version();
  if (!version) {
    out.notes.push_back(version.error().message);
    return {};
  }
  out.versions["nccl"] = *version;
  const int n = ranks.place().ranks, rank = ranks.place().rank;
  constexpr std::int64_t kSmall = 1 << 20, kLarge = 1 << 28;
  HEADROOM_ASSIGN(const DeviceBlock large, make_device_block(kLarge * 4));
  HEADROOM_ASSIGN(const DeviceBlock gathered, make_device_block(kSmall * 4 * n));
  HEADROOM_TRY(log.record("nccl buffers"));
  void* x = large.get();
  HEADROOM_ASSIGN(Communicator first, join_group(ranks));
  HEADROOM_TRY(log.record("nccl communicator"));
  HEADROOM_TRY(first.all_reduce(x, x, kSmall, DType::fp32, Reduction::sum, nullptr));
  HEADROOM_TRY(log.record("first all_reduce"));
  HEADROOM_TRY(first.all_gather(x, gathered.get(), kSmall, DType::fp32, nullptr));
  HEADROOM_TRY(log.record("first all_gather"));
  HEADROOM_TRY(first.reduce_scatter(gathered.get(), x, kSmall, DType::fp32, Reduction::sum, nullptr));
  HEADROOM_TRY(log.record("first reduce_scatter"));
  HEADROOM_TRY(first.all_reduce(x, x, kLarge, DType::fp32, Reduction::sum, nullptr));
  HEADROOM_TRY(log.record("all_reduce of 1 GiB"));
  std::vector<Communicator> groups;
  for (int k = 2; k <= 4; ++k) {
    HEADROOM_ASSIGN(Communicator group, join_group(ranks));
    HEADROOM_TRY(log.record(fmt::format("communicator {}", k)));
    HEADROOM_TRY(group.all_reduce(x, x, kSmall, DType::fp32, Reduction::sum, nullptr));
    HEADROOM_TRY(log.record(fmt::format("communicator {} connected", k)));
    groups.push_back(std::move(group));
  }
  if (n > 1) {
    if (rank == 0) HEADROOM_TRY(first.send(x, kSmall, DType::fp32, 1, nullptr));
    if (rank == 1) HEADROOM_TRY(first.receive(x, kSmall, DType::fp32, 0, nullptr));
    HEADROOM_TRY(log.record("first send or receive"));
    HEADROOM_TRY(first.all_to_all(gathered.get(), x, kSmall / n, DType::fp32, nullptr));
    HEADROOM_TRY(log.record("first all_to_all"));
  }
  for (Communicator& group : groups) HEADROOM_TRY(group.close());
  return first.close();
}

}  // namespace headroom::gpu
