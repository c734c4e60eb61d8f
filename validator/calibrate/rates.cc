#include "validator/calibrate/rates.h"

#include <fmt/format.h>

#include "validator/cuda/cublas.h"
#include "validator/cuda/timing.h"
#include "validator/kernels/attention.h"
#include "validator/kernels/elementwise.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

constexpr int kRepeats = 11;

Status add(Measurements& out, RatePoint point, int repeats, const std::function<Status(int)>& work) {
  HEADROOM_ASSIGN(point.seconds, median_seconds(repeats, nullptr, work));
  out.rates.push_back(std::move(point));
  return {};
}

struct Shape {
  std::int64_t m, n, k;
};

// The result goes to `result`, not into the arena, whose numbers would grow.
Status measure_product(Cublas& cublas, const Arena& arena, void* result, DType dtype, const Shape& s,
                       Measurements& out) {
  const auto size = static_cast<Bytes>(element_size(dtype));
  const Bytes largest = size * std::max(s.m * s.k, s.k * s.n);
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  RatePoint point{.kind = "matrix",
                  .shape = fmt::format("{}x{}x{}", s.m, s.n, s.k),
                  .dtype = dtype,
                  .flops = 2 * m * n * k,
                  .bytes = static_cast<double>(size) * (m * k + k * n + m * n)};
  return add(out, std::move(point), kRepeats, [&](int run) {
    // As a linear layer: activations times the transposed weight.
    return cublas.multiply({.a = arena.place(run, 2, 0, largest),
                            .b = arena.place(run, 2, 1, largest),
                            .d = result,
                            .dtype = dtype,
                            .m = s.m,
                            .n = s.n,
                            .k = s.k,
                            .transpose_b = true});
  });
}

}  // namespace

Status measure_matrix_rates(const Arena& arena, Measurements& out) {
  auto cublas = Cublas::create();
  if (!cublas) {
    out.notes.push_back(cublas.error().message);
    return {};
  }
  const Bytes workspace_bytes = default_cublas_workspace(9);
  HEADROOM_ASSIGN(const DeviceBlock workspace, make_device_block(workspace_bytes));
  HEADROOM_TRY(cublas->bind(nullptr, workspace.get(), workspace_bytes));
  HEADROOM_ASSIGN(const DeviceBlock result, make_device_block(kGiB));
  for (std::int64_t side : {256, 512, 1024, 2048, 4096, 8192}) {
    HEADROOM_TRY(measure_product(*cublas, arena, result.get(), DType::bf16, {side, side, side}, out));
  }
  for (std::int64_t rows : {1, 16, 128, 1024, 4096, 16384}) {
    for (auto [n, k] : {std::pair{4096, 4096}, {11008, 4096}, {4096, 11008}, {32000, 4096}}) {
      HEADROOM_TRY(measure_product(*cublas, arena, result.get(), DType::bf16, {rows, n, k}, out));
    }
  }
  for (DType dtype : {DType::fp16, DType::fp32}) {
    for (std::int64_t side : {512, 2048, 4096}) {
      HEADROOM_TRY(measure_product(*cublas, arena, result.get(), dtype, {side, side, side}, out));
    }
  }
  HEADROOM_TRY(measure_product(*cublas, arena, result.get(), DType::fp16, {8192, 8192, 8192}, out));
  return {};
}

Status measure_attention_rates(const Arena& arena, Measurements& out) {
  constexpr std::int64_t kHeads = 32, kDim = 128, kTokens = 16384;
  for (std::int64_t key_heads : {32, 8}) {
    for (std::int64_t length : {512, 2048, 8192}) {
      const std::int64_t batch = kTokens / length;
      const Bytes bytes = kTokens * kHeads * kDim * 2, statistics = kTokens * kHeads * 4;
      HEADROOM_ASSIGN(const DeviceBlock small, make_device_block(2 * statistics));
      auto* lse = static_cast<float*>(small.get());
      Attention a{.dtype = DType::bf16,
                  .batch = batch,
                  .query_length = length,
                  .key_length = length,
                  .heads = kHeads,
                  .key_heads = key_heads,
                  .head_dim = kDim,
                  .q = arena.place(0, 8, 0, bytes),
                  .k = arena.place(0, 8, 1, bytes),
                  .v = arena.place(0, 8, 2, bytes),
                  .o = arena.place(0, 8, 3, bytes),
                  .logsumexp = lse};
      const AttentionGradient g{.d_o = arena.place(0, 8, 4, bytes),
                                .d_q = arena.place(0, 8, 5, bytes),
                                .d_k = arena.place(0, 8, 6, bytes),
                                .d_v = arena.place(0, 8, 7, bytes),
                                .delta = lse + kTokens * kHeads};
      // Two products over half of the scores (causal); the backward has five.
      const double product = static_cast<double>(kTokens) * static_cast<double>(length * kHeads * kDim);
      const std::string shape = fmt::format("{}x{} heads {}/{}x{}", batch, length, kHeads, key_heads, kDim);
      const double tensor = static_cast<double>(bytes);
      HEADROOM_TRY(
          add(out, {.kind = "attention forward", .shape = shape, .flops = 2 * product, .bytes = 4 * tensor},
              kRepeats, [&](int) { return attention_forward(a, nullptr); }));
      HEADROOM_TRY(
          add(out, {.kind = "attention backward", .shape = shape, .flops = 5 * product, .bytes = 8 * tensor},
              kRepeats, [&](int) { return attention_backward(a, g, nullptr); }));
    }
  }
  return {};
}

Status measure_copy_rates(const Arena& arena, Measurements& out) {
  for (Bytes bytes = 64 * kKiB; 2 * bytes <= arena.size() && bytes <= kGiB; bytes *= 4) {
    const RatePoint point{
        .kind = "copy", .shape = format_bytes(bytes), .bytes = 2 * static_cast<double>(bytes)};
    HEADROOM_TRY(add(out, point, 21, [&](int run) {
      return copy(arena.place(run, 2, 0, bytes), arena.place(run, 2, 1, bytes), bytes, nullptr);
    }));
  }
  return {};
}

Status measure_host_rates(const Arena& arena, Measurements& out) {
  constexpr Bytes kLargest = 512 * kMiB;
  HEADROOM_ASSIGN(const PinnedBlock pinned, make_pinned_block(kLargest));
  std::vector<char> pageable(static_cast<std::size_t>(64 * kMiB), 1);
  const auto measure = [&](const char* kind, void* host, Bytes bytes, bool up) {
    const RatePoint point{.kind = kind, .shape = format_bytes(bytes), .bytes = static_cast<double>(bytes)};
    return add(out, point, 7, [&](int run) {
      void* device = arena.place(run, 1, 0, bytes);
      return HEADROOM_CUDA(cudaMemcpyAsync(up ? device : host, up ? host : device,
                                           static_cast<std::size_t>(bytes),
                                           up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, nullptr));
    });
  };
  for (Bytes bytes = 64 * kKiB; bytes <= kLargest; bytes *= 8) {
    HEADROOM_TRY(measure("host to device", pinned.get(), bytes, true));
    HEADROOM_TRY(measure("device to host", pinned.get(), bytes, false));
  }
  HEADROOM_TRY(measure("host to device", pinned.get(), kLargest, true));
  HEADROOM_TRY(measure("device to host", pinned.get(), kLargest, false));
  HEADROOM_TRY(measure("pageable host to device", pageable.data(), 64 * kMiB, true));
  return measure("device to pageable host", pageable.data(), 64 * kMiB, false);
}

Status measure_latency(Measurements& out) {
  HEADROOM_ASSIGN(const DeviceBlock block, make_device_block(1024));
  constexpr int kLaunches = 1000;
  HEADROOM_ASSIGN(const double seconds, median_seconds(5, nullptr, [&](int) -> Status {
                    for (int i = 0; i < kLaunches; ++i) {
                      HEADROOM_TRY(scale_shift(block.get(), 1, 0, block.get(), DType::fp32, 32, nullptr));
                    }
                    return {};
                  }));
  out.rates.push_back(
      {.kind = "launch", .shape = "32 elements", .dtype = DType::fp32, .seconds = seconds / kLaunches});
  return {};
}

Status measure_collective_rates(Communicator& group, const Arena& arena, Measurements& out) {
  const int n = group.ranks();
  if (n < 2) return {};
  for (Bytes bytes = 16 * kKiB; 2 * bytes <= arena.size() && bytes <= kGiB; bytes *= 8) {
    const std::int64_t elements = bytes / 2, part = elements / n;
    void* x = arena.place(0, 2, 0, bytes);
    void* y = arena.place(0, 2, 1, bytes);
    const auto measure = [&](const char* kind, const std::function<Status()>& work) {
      const RatePoint point{.kind = kind, .shape = format_bytes(bytes), .bytes = static_cast<double>(bytes)};
      return add(out, point, kRepeats, [&](int) { return work(); });
    };
    HEADROOM_TRY(measure("all_reduce", [&] {
      return group.all_reduce(x, y, elements, DType::bf16, Reduction::sum, nullptr);
    }));
    HEADROOM_TRY(measure("all_gather", [&] { return group.all_gather(x, y, part, DType::bf16, nullptr); }));
    HEADROOM_TRY(measure("reduce_scatter", [&] {
      return group.reduce_scatter(x, y, part, DType::bf16, Reduction::sum, nullptr);
    }));
    HEADROOM_TRY(measure("all_to_all", [&] { return group.all_to_all(x, y, part, DType::bf16, nullptr); }));
  }
  return {};
}

}  // namespace headroom::gpu
