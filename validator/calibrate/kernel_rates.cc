#include <fmt/format.h>

#include "validator/calibrate/rates.h"
#include "validator/cuda/timing.h"
#include "validator/kernels/adamw.h"
#include "validator/kernels/elementwise.h"
#include "validator/kernels/finite.h"
#include "validator/kernels/norm.h"
#include "validator/kernels/reduce.h"
#include "validator/kernels/sequence.h"
#include "validator/kernels/softmax.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {
namespace {

// Activations of a 7B layer: 16,384 tokens of 4,096; logits of 1,024 tokens over 152,064 words.
constexpr std::int64_t kTokens = 16384, kWidth = 4096, kElements = kTokens * kWidth;
constexpr std::int64_t kRows = 1024, kVocabulary = 152064;

/// One timing: the arena's places by slot, each `slot_bytes` long.
class Bench {
 public:
  Bench(const Arena& arena, Measurements& out, DType dtype) : arena_(arena), out_(out), dtype_(dtype) {}

  /// `bytes`: read plus written. `work(at)` gets a function from slot to address.
  template <class Work>
  Status time(const char* what, std::int64_t elements, double bytes, int slots, Work work) {
    const Bytes slot_bytes =
        std::max<Bytes>(bytes_of(dtype_, elements), 4 * elements / (dtype_ == DType::fp32 ? 1 : 2));
    if (slots * slot_bytes > arena_.size())
      return fail(std::string("kernel ") + what + ": the arena is too small");
    RatePoint point{.kind = std::string("kernel ") + what,
                    .shape = fmt::format("{}", elements),
                    .dtype = dtype_,
                    .bytes = bytes};
    HEADROOM_ASSIGN(point.seconds, median_seconds(9, nullptr, [&](int run) {
                      return work([&](int slot) { return arena_.place(run, slots, slot, slot_bytes); });
                    }));
    out_.rates.push_back(std::move(point));
    return {};
  }

 private:
  const Arena& arena_;
  Measurements& out_;
  DType dtype_;
};

Status pointwise(Bench& b, DType t) {
  const double tensor = static_cast<double>(bytes_of(t, kElements)), n = static_cast<double>(kElements);
  HEADROOM_TRY(b.time("add", kElements, 3 * tensor, 3, [&](auto at) {
    return binary(Binary::add, at(0), at(1), at(2), t, kElements, nullptr);
  }));
  HEADROOM_TRY(b.time("scale", kElements, 2 * tensor, 2,
                      [&](auto at) { return scale_shift(at(0), 0.5f, 0, at(1), t, kElements, nullptr); }));
  HEADROOM_TRY(b.time("gelu", kElements, 2 * tensor, 2,
                      [&](auto at) { return unary(Unary::gelu, at(0), at(1), t, kElements, nullptr); }));
  HEADROOM_TRY(b.time("gelu backward", kElements, 3 * tensor, 3, [&](auto at) {
    return activation_backward(Activation::gelu, at(0), at(1), at(2), t, kElements, nullptr);
  }));
  HEADROOM_TRY(b.time("swiglu", kElements, 3 * tensor, 3,
                      [&](auto at) { return swiglu(at(0), at(1), at(2), t, kElements, nullptr); }));
  HEADROOM_TRY(b.time("swiglu backward", kElements, 5 * tensor, 5, [&](auto at) {
    return swiglu_backward(at(0), at(1), at(2), at(3), at(4), t, kElements, nullptr);
  }));
  HEADROOM_TRY(b.time("add bias", kElements, 2 * tensor, 3,
                      [&](auto at) { return add_bias(at(0), at(1), at(2), t, kTokens, kWidth, nullptr); }));
  HEADROOM_TRY(b.time("dropout", kElements, 2 * tensor + n, 3,
                      [&](auto at) { return dropout(at(0), at(1), at(2), 0.1f, 7, t, kElements, nullptr); }));
  HEADROOM_TRY(b.time("dropout backward", kElements, 2 * tensor + n, 3, [&](auto at) {
    return dropout_backward(at(0), at(1), at(2), 0.1f, t, kElements, nullptr);
  }));
  const DType other = t == DType::fp32 ? DType::bf16 : DType::fp32;
  HEADROOM_TRY(b.time("cast", kElements, 6 * n, 3,
                      [&](auto at) { return cast(at(0), t, at(1), other, kElements, nullptr); }));
  HEADROOM_TRY(
      b.time("fill", kElements, tensor, 1, [&](auto at) { return fill(at(0), 1, t, kElements, nullptr); }));
  HEADROOM_TRY(b.time("transpose", kElements, 2 * tensor, 2, [&](auto at) {
    return permute(at(0), at(1), kTokens, kWidth, 1, element_size(t), nullptr);
  }));
  HEADROOM_TRY(b.time("permute heads", kElements, 2 * tensor, 2, [&](auto at) {
    return permute(at(0), at(1), kTokens, 32, 128, element_size(t), nullptr);
  }));
  return {};
}

Status by_rows(Bench& b, DType t) {
  const double tensor = static_cast<double>(bytes_of(t, kElements));
  HEADROOM_ASSIGN(const DeviceBlock statistics, make_device_block(2 * kTokens * 4));
  HEADROOM_TRY(fill(statistics.get(), 1, DType::fp32, 2 * kTokens, nullptr));
  auto* mean = static_cast<float*>(statistics.get());
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    const bool rms = kind == NormKind::rms;
    HEADROOM_ASSIGN(const DeviceBlock workspace, make_device_block(norm_backward_workspace(kind, kWidth)));
    HEADROOM_TRY(b.time(rms ? "rms norm" : "layer norm", kElements, 2 * tensor, 3, [&](auto at) {
      return norm_forward({.kind = kind,
                           .dtype = t,
                           .rows = kTokens,
                           .columns = kWidth,
                           .x = at(0),
                           .weight = at(1),
                           .bias = rms ? nullptr : at(1),
                           .y = at(2),
                           .mean = mean,
                           .rstd = mean + kTokens},
                          nullptr);
    }));
    HEADROOM_TRY(
        b.time(rms ? "rms norm backward" : "layer norm backward", kElements, 3 * tensor, 4, [&](auto at) {
          return norm_backward({.kind = kind,
                                .dtype = t,
                                .rows = kTokens,
                                .columns = kWidth,
                                .x = at(0),
                                .weight = at(1),
                                .d_y = at(2),
                                .mean = mean,
                                .rstd = mean + kTokens,
                                .d_x = at(3),
                                .d_weight = at(1),
                                .workspace = workspace.get()},
                               nullptr);
        }));
  }
  HEADROOM_TRY(b.time("rotary", kElements, 2 * tensor, 2, [&](auto at) {
    return rotary(
        {.dtype = t, .tokens = kTokens, .heads = 32, .head_dim = 128, .length = 2048, .x = at(0), .y = at(1)},
        nullptr);
  }));
  HEADROOM_TRY(b.time("sum of squares", kElements, tensor, 1, [&](auto at) {
    return reduce_all(Reduce::sum_of_squares, at(0), t, kElements, mean, false, nullptr);
  }));
  HEADROOM_TRY(b.time("sum rows", kElements, tensor, 1, [&](auto at) {
    return reduce_rows(Reduce::sum, at(0), t, kTokens, kWidth, mean, nullptr);
  }));
  HEADROOM_TRY(b.time("sum columns", kElements, tensor, 2,
                      [&](auto at) { return sum_columns(at(0), t, kTokens, kWidth, at(1), nullptr); }));
  return {};
}

Status by_vocabulary(Bench& b, DType t) {
  constexpr std::int64_t kLogits = kRows * kVocabulary;
  const double tensor = static_cast<double>(bytes_of(t, kLogits));
  const Rows shape{t, kRows, kVocabulary};
  HEADROOM_ASSIGN(const DeviceBlock small, make_device_block(4 * kRows * 8));
  HEADROOM_TRY(fill_random(small.get(), 0, 1000, 3, DType::int64, kRows, nullptr));
  auto* target = static_cast<std::int64_t*>(small.get());
  auto* loss = reinterpret_cast<float*>(target + kRows);
  auto* lse = loss + 2 * kRows;
  HEADROOM_TRY(b.time("log softmax", kLogits, 2 * tensor, 2,
                      [&](auto at) { return softmax(shape, true, at(0), at(1), nullptr); }));
  HEADROOM_TRY(b.time("log softmax backward", kLogits, 3 * tensor, 3,
                      [&](auto at) { return softmax_backward(shape, true, at(0), at(1), at(2), nullptr); }));
  HEADROOM_TRY(b.time("softmax", kLogits, 2 * tensor, 2,
                      [&](auto at) { return softmax(shape, false, at(0), at(1), nullptr); }));
  HEADROOM_TRY(b.time("cross entropy", kLogits, tensor, 1,
                      [&](auto at) { return cross_entropy(shape, at(0), target, loss, lse, nullptr); }));
  HEADROOM_TRY(b.time("cross entropy backward", kLogits, 2 * tensor, 2, [&](auto at) {
    return cross_entropy_backward(shape, at(0), target, lse, loss, at(1), nullptr);
  }));
  HEADROOM_TRY(
      b.time("entropy", kLogits, tensor, 1, [&](auto at) { return entropy(shape, at(0), loss, nullptr); }));
  HEADROOM_TRY(b.time("sample", kLogits, tensor, 1,
                      [&](auto at) { return sample(shape, at(0), 1.0f, 5, target, nullptr); }));
  return {};
}

// What loss scalers ask of gradients. Doubles and flags are not of the timing's type, so slots are counted in
// it.
Status of_gradients(Bench& b, DType t) {
  const double n = static_cast<double>(kElements), size = element_size(t);
  const int doubles = 8 / element_size(t);
  HEADROOM_TRY(b.time("widen", kElements, (size + 8) * n, 1 + doubles, [&](auto at) {
    return widen(at(0), t, static_cast<double*>(at(1)), kElements, nullptr);
  }));
  HEADROOM_TRY(b.time("is nan", kElements, (size + 1) * n, 2, [&](auto at) {
    return ask(Ask::is_nan, at(0), t, static_cast<std::uint8_t*>(at(1)), kElements, nullptr);
  }));
  return {};
}

Status of_flags_and_doubles(const Arena& arena, Measurements& out) {
  const double n = static_cast<double>(kElements);
  Bench flags(arena, out, DType::boolean);
  HEADROOM_TRY(flags.time("either", kElements, 3 * n, 3, [&](auto at) {
    const auto flag = [&](int slot) { return static_cast<std::uint8_t*>(at(slot)); };
    return either(flag(0), flag(1), flag(2), kElements, nullptr);
  }));
  Bench doubles(arena, out, DType::fp64);
  HEADROOM_ASSIGN(const DeviceBlock sum, make_device_block(8));
  return doubles.time("norm", kElements, 8 * n, 1, [&](auto at) {
    return norm(static_cast<const double*>(at(0)), kElements, static_cast<double*>(sum.get()), nullptr);
  });
}

Status by_index(Bench& b, DType t) {
  constexpr std::int64_t kTable = 32000;
  const double tensor = static_cast<double>(bytes_of(t, kElements));
  HEADROOM_ASSIGN(const DeviceBlock index, make_device_block(kTokens * 8));
  HEADROOM_TRY(fill_random(index.get(), 0, kTable / 4, 3, DType::int64, kTokens, nullptr));
  const auto* i = static_cast<const std::int64_t*>(index.get());
  HEADROOM_TRY(b.time("embedding", kElements, 2 * tensor, 2, [&](auto at) {
    return gather_rows(at(0), kTokens, i, kTokens, kWidth, t, at(1), nullptr);
  }));
  HEADROOM_TRY(b.time("embedding backward", kElements, 3 * tensor, 2, [&](auto at) {
    return scatter_add_rows(at(0), i, kTokens, kWidth, t, at(1), kTokens, nullptr);
  }));
  return {};
}

Status optimizer(Bench& b, DType t) {
  const double n = static_cast<double>(kElements), size = element_size(t);
  HEADROOM_TRY(b.time("adamw", kElements, 7 * size * n, 4, [&](auto at) {
    return adamw({.weight_dtype = t,
                  .gradient_dtype = t,
                  .state_dtype = t,
                  .n = kElements,
                  .parameter = at(0),
                  .gradient = at(1),
                  .first = at(2),
                  .second = at(3)},
                 nullptr);
  }));
  return {};
}

}  // namespace

Status measure_kernel_rates(const Arena& arena, Measurements& out) {
  for (DType t : {DType::bf16, DType::fp32}) {
    Bench bench(arena, out, t);
    HEADROOM_TRY(pointwise(bench, t));
    HEADROOM_TRY(by_rows(bench, t));
    HEADROOM_TRY(by_vocabulary(bench, t));
    HEADROOM_TRY(by_index(bench, t));
    HEADROOM_TRY(optimizer(bench, t));
    HEADROOM_TRY(of_gradients(bench, t));
  }
  return of_flags_and_doubles(arena, out);
}

}  // namespace headroom::gpu
