#include "simulator/trainer/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/architecture/lora_defaults.h"
#include "models/sharding/tensor_slice.h"
#include "simulator/job/names.h"
#include "simulator/phases/megatron_role.h"
#include "simulator/tape/modules/lora.h"
#include "simulator/trainer/store/data_parallel.h"
#include "simulator/trainer/store/fsdp.h"
#include "simulator/trainer/store/gemini.h"
#include "simulator/trainer/store/low_level_zero.h"
#include "simulator/trainer/store/zero.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kSend = tape::operation_name("weight_sync::full_tensor"),
                    kBucket = tape::operation_name("weight_sync::bucket");

}  // namespace

Status Store::build_model() {
  const Role& r = role();
  tape::ModelOptions options;
  options.dtype = r.precision.weights;
  options.frozen = r.precision.frozen;
  options.trainable = r.trained && !r.lora;
  options.training = r.trained;
  options.dropout = r.dropout;
  options.attention = r.attention;
  options.recompute = r.recompute;
  options.head = r.head;
  if (r.sharding.kind == ShardingKind::fsdp2) options.expert_ranks = r.parallel.expert;
  if (r.parallel.sequence) options.token_ranks = r.parallel.tensor;
  HEADROOM_ASSIGN(Architecture slice, tensor_slice(*r.model, r.parallel.tensor));
  if (r.sharding.ties_after_sharding) slice.decoder.tied_embeddings = false;
  HEADROOM_ASSIGN(model_, tape::make_model(tape_, slice, r.name, options));
  model_->engine = &context_.engine;
  if (r.lora) {
    LoraSpec adapters = *r.lora;
    HEADROOM_ASSIGN(adapters.targets, lora_targets(r.lora->targets, r.model->family, "lora.targets"));
    tape::add_lora(*model_, adapters);
  }
  // gradient_checkpointing_enable() sees to it, with adapters or without.
  model_->embeddings_require_grad =
      r.trained && (r.inputs_require_grad || r.recompute.kind != RecomputeKind::none);
  std::map<int, Bytes> units;
  for (const tape::ParameterSlot& slot : model_->parameters()) {
    const Bytes bytes = bytes_of(r.precision.weights, slot.tensor->elements());
    // What is sent is whole; a rank has its tensor-parallel part.
    extent_.largest = std::max(extent_.largest, bytes * r.parallel.tensor);
    extent_.whole += bytes;
    units[slot.layer] += bytes;
  }
  for (const auto& [layer, bytes] : units) {
    Bytes& most = layer < 0 ? extent_.root : extent_.layer;
    most = std::max(most, bytes);
  }
  return {};
}

void Store::sync_weights(const WeightSync& sync) {
  const Extent& size = extent();
  const tape::ComponentScope component(tape_, Component::staging);
  const Bytes stored = element_size(role().precision.weights);
  const auto sent_bytes = [&](Bytes bytes) { return bytes / stored * element_size(sync.dtype); };
  Tensor gathered;
  if (sync.kind == WeightExport::full_parameters) gathered = tape_.empty({size.whole}, DType::uint8, kSend);
  if (sync.kind == WeightExport::layers)  // adapters stand in layers only
    gathered =
        tape_.empty({sync.adapters_only ? size.layer : std::max(size.root, size.layer)}, DType::uint8, kSend);
  if (!sync.adapters_only) {
    Tensor whole;
    if (!holds_whole_weights()) whole = tape_.empty({size.largest}, DType::uint8, kSend);
    const Bytes largest = sent_bytes(size.largest);
    Tensor cast;
    if (largest != size.largest) cast = tape_.empty({largest}, DType::uint8, kSend);
    const Tensor sent =
        tape_.empty({std::max(sync.bucket, largest > sync.bucket ? largest : 0)}, DType::uint8, kBucket);
  }
}

Result<std::unique_ptr<Store>> make_store(const RoleContext& context) {
  switch (context.role.sharding.kind) {
    case ShardingKind::none:
      return std::make_unique<UnshardedStore>(context);
    case ShardingKind::fsdp1:
    case ShardingKind::fsdp2:
      return std::make_unique<FsdpStore>(context);
    case ShardingKind::zero0:
    case ShardingKind::zero1:
    case ShardingKind::zero2:
    case ShardingKind::zero3:
      return std::make_unique<ZeroStore>(context);
    case ShardingKind::low_level_zero1:
    case ShardingKind::low_level_zero2:
      return std::make_unique<LowLevelZeroStore>(context);
    case ShardingKind::gemini:
      return std::make_unique<GeminiStore>(context);
    case ShardingKind::megatron:
      return std::make_unique<phases::MegatronRole>(context);
    case ShardingKind::data_parallel:
      return std::make_unique<DataParallelStore>(context);
  }
  return fail(fmt::format("no program yet for role {}: sharding {}", context.role.name,
                          enum_name(context.role.sharding.kind)));
}

}  // namespace headroom::trainer
