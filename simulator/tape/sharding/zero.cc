#include "simulator/tape/sharding/zero.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/sharding/zero3.h"
#include "simulator/tape/sharding/zero_partitioned.h"
#include "simulator/tape/sharding/zero_unsharded.h"

namespace headroom::tape {
namespace {

const std::uint16_t kMoved = operation_name("deepspeed::offload_states");
const std::uint16_t kIsNan = operation_name("aten::isnan"), kIsInf = operation_name("aten::isinf"),
                    kAbs = operation_name("aten::abs"), kOr = operation_name("aten::logical_or"),
                    kMax = operation_name("aten::max"), kWiden = operation_name("aten::to"),
                    kNorm = operation_name("aten::linalg_vector_norm"),
                    kScale = operation_name("zero::scale");

/// Parts of names whose weights do not decay.
constexpr std::array<std::string_view, 5> kNoDecay = {"bias", "layer_norm.weight", "layernorm.weight",
                                                      "norm.weight", "ln_f.weight"};

bool decays(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::none_of(kNoDecay.begin(), kNoDecay.end(),
                      [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

unsigned all_dimensions(const Tensor& tensor) {
  return (1u << tensor.rank()) - 1u;
}

}  // namespace

std::vector<std::vector<ZeroParameter>> zero_groups(Model& model, bool adapters_apart) {
  std::vector<std::vector<ZeroParameter>> groups(3);
  std::array<std::int64_t, 3> ends{};
  for (const ParameterSlot& slot : model.parameters()) {
    if (!(*slot.tensor)->requires_grad) continue;
    const bool apart = adapters_apart && slot.name.find(".lora_") != std::string::npos;
    const std::size_t group = !decays(slot.name) ? 2 : apart ? 1 : 0;
    const std::int64_t n = slot.tensor->elements();
    groups[group].push_back({.slot = slot.tensor, .elements = n, .start = ends[group]});
    ends[group] += n;
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

void zero_to_device(Model& model, bool parameters) {
  Tape& tape = model.tape();
  const auto move = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor->storage->block == kNoBlock)
      tape.regrow_storage(tensor, tensor->storage->bytes);
  };
  if (parameters)
    for (const ParameterSlot& slot : model.parameters()) move(*slot.tensor);
  for (const Tensor* buffer : model.buffers()) move(*buffer);
}

void zero_move(Tape& tape, Tensor& tensor, bool to_device, ZeroTwins& twins) {
  if (!tensor.defined() || (tensor->storage->device == Device::gpu) == to_device) return;
  const ComponentScope component(tape, tensor->storage->label.component);
  const Tensor before = tensor;
  if (to_device) {
    tensor = tape.empty(before.shape(), before.dtype(), kMoved);
  } else {
    Tensor& twin = twins[&tensor];
    if (!twin.defined()) twin = tape.empty_host(before.shape(), before.dtype(), HostKind::pinned);
    tensor = twin;
  }
  if (!tape.wants_operations()) return;
  const OperationKind kind = to_device ? OperationKind::host_to_device : OperationKind::device_to_host;
  Work(tape, kind, kMoved).in(before).out(tensor).run();
}

void zero_check_overflow(const Tensor& gradient) {
  Tape& tape = gradient.tape();
  const GradMode no_grad(tape, false);
  const ComponentScope component(tape, Component::temporaries);
  const Tensor wide = elementwise(kWiden, DType::fp32, {&gradient});
  const Tensor nan = plain(kIsNan, DType::boolean, wide);
  Tensor size = plain(kAbs, DType::fp32, wide);
  const Tensor infinite = plain(kIsInf, DType::boolean, size);
  size.reset();
  const Tensor either = plain(kOr, DType::boolean, infinite, nan);
  Tensor flags = plain(kWiden, DType::fp32, either);
  const Tensor most = reduce(kMax, DType::fp32, 4, flags, all_dimensions(flags), false);
}

Tensor zero_logged_loss(const Tensor& loss) {
  return loss.tape().empty({}, loss.dtype(), kScale);
}

Tensor zero_scaled_loss(const Tensor& loss, Tensor& logged) {
  logged = zero_logged_loss(loss);
  return mul_scalar(loss);
}

Tensor zero_group_norm(Tape& tape, std::int64_t count) {
  const ComponentScope component(tape, Component::temporaries);
  const auto number = [&](DType dtype = DType::fp32) { return tape.empty({}, dtype, kNorm); };
  Tensor norms = tape.empty({count}, DType::fp64, kNorm);
  Tensor squares = tape.empty({count}, DType::fp64, kNorm);
  Tensor sum = number(DType::fp64);
  drop(squares, norms);
  Tensor total = number();
  sum.reset();
  total = number();
  return zero_finite_norm(total);
}

Tensor zero_finite_norm(const Tensor& norm) {
  Tape& tape = norm.tape();
  const ComponentScope component(tape, Component::temporaries);
  const auto number = [&](DType dtype) { return tape.empty({}, dtype, kNorm); };
  const Tensor infinite = zero_infinite(norm);
  const Tensor nan = number(DType::boolean), either = number(DType::boolean),
               replacement = number(DType::fp32);
  Tensor replaced = number(DType::fp32), finite = number(DType::boolean), kept = number(DType::fp32);
  finite.reset();
  Tensor out = number(DType::fp32);
  drop(kept, replaced);
  return out;
}

Tensor zero_infinite(const Tensor& norm) {
  Tape& tape = norm.tape();
  const Tensor size = tape.empty({}, DType::fp32, kNorm);
  return tape.empty({}, DType::boolean, kNorm);
}

void zero_clip_factor(Tape& tape) {
  const ComponentScope component(tape, Component::temporaries);
  // ((norm / scale + tiny) / limit, at least 1) * scale; 1 / that.
  Tensor factor = tape.empty({}, DType::fp32, kScale);
  for (int i = 0; i < 6; ++i) factor = tape.empty({}, DType::fp32, kScale);
}

Tensor zero_norm(const Tensor& gradient) {
  Tape& tape = gradient.tape();
  const GradMode no_grad(tape, false);
  const ComponentScope component(tape, Component::temporaries);
  const Tensor wide = elementwise(kWiden, DType::fp64, {&gradient});
  return reduce(kNorm, DType::fp64, 8, wide, all_dimensions(wide), false);
}

std::unique_ptr<ZeroEngine> make_zero_engine(Model& model, Engine& engine, const ZeroOptions& options) {
  if (options.stage == 3) return std::make_unique<Zero3>(model, engine, options);
  if (options.stage == 0 || !options.trained) return std::make_unique<ZeroUnsharded>(model, engine, options);
  return std::make_unique<ZeroPartitioned>(model, engine, options);
}

}  // namespace headroom::tape
