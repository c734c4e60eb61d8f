#include "simulator/phases/packed_program.h"

#include <algorithm>
#include <map>

#include "simulator/phases/policy_loss.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/sharding/fsdp1.h"
#include "simulator/tape/sharding/fsdp2.h"

namespace headroom::phases {
namespace {

using tape::Tensor;

const std::uint16_t kInput = tape::operation_name("micro_batch"),
                    kExport = tape::operation_name("state_dict::full_tensor"),
                    kExported = tape::operation_name("state_dict::shard"),
                    kSend = tape::operation_name("weight_sync::full_tensor"),
                    kBucket = tape::operation_name("weight_sync::bucket"),
                    kHostState = tape::operation_name("adamw_state");

}  // namespace

// --- Building

Status PackedProgram::build() {
  const Role& r = role();
  tape_.set_meta_parameters(r.built_on_host);
  const Status built = RoleProgram::build();
  tape_.set_meta_parameters(false);
  HEADROOM_TRY(built);
  model_->options().ulysses = r.parallel.ulysses;
  if (r.sharding.kind != ShardingKind::fsdp1 && r.sharding.kind != ShardingKind::fsdp2) {
    parameters_ = trainable();
    return {};
  }
  tape::ShardingOptions options;
  options.ranks = std::max<std::int64_t>(context_.ranks, 1);
  options.compute = r.precision.compute;
  options.reduce = r.precision.reduce;
  options.reshard_after_forward = r.sharding.reshard_after_forward;
  options.cpu_offload = r.sharding.cpu_offload;
  options.forward_prefetch = r.sharding.forward_prefetch;
  options.root_stays_gathered = r.sharding.root_stays_gathered;
  options.built_on_host = r.built_on_host;
  options.gather_stream = context_.first_stream;
  options.reduce_stream = static_cast<Stream>(context_.first_stream + 2);
  if (r.sharding.kind == ShardingKind::fsdp1)
    runtime_ = std::make_unique<tape::Fsdp1>(*model_, context_.engine, options);
  else
    runtime_ = std::make_unique<tape::Fsdp2>(*model_, context_.engine, options);
  parameters_ = runtime_->shards();
  return {};
}

void PackedProgram::build_optimizer() {
  if (role().precision.master && !runtime_) {
    RoleProgram::build_optimizer();
    return;
  }
  optimizer_ = std::make_unique<tape::AdamW>(tape_, parameters_, role().optimizer.implementation);
}

void PackedProgram::create_states() {
  if (!role().sharding.cpu_offload) {
    optimizer_->create_states();
    return;
  }
  if (!host_states_.empty()) return;
  const tape::ComponentScope component(tape_, Component::optimizer);
  for (const Tensor& shard : parameters_)
    for (int moment = 0; moment < 2; ++moment)
      host_states_.push_back(tape_.empty_host(shard.shape(), shard.dtype(), HostKind::pageable));
  static_cast<void>(kHostState);
}

// --- Micro-batches

/// The running step's list for the acting role, or of the latest step before it.
const ListedBatches* PackedProgram::listed(Pass pass) const {
  const ListedBatches* found = nullptr;
  if (context_.listed == nullptr) return found;
  for (const ListedBatches& one : *context_.listed)
    if (one.role == acting().name && one.training == (pass == Pass::train) && one.step <= step_ &&
        (found == nullptr || one.step > found->step))
      found = &one;
  return found;
}

std::vector<PackedProgram::Piece> PackedProgram::forward_pieces() const {
  std::vector<Piece> out;
  if (const ListedBatches* known = listed(Pass::forward)) {
    for (const auto& lengths : known->micro_batches)
      out.push_back({listed_batch(acting(), Pass::forward, lengths)});
    return out;
  }
  const std::int64_t all = context_.packed_forward.count, runs = std::min<std::int64_t>(all, 2);
  for (std::int64_t i = 0; i < runs; ++i)
    out.push_back({context_.packed_forward, i == 0 ? 1 : static_cast<double>(all - 1)});
  return out;
}

std::vector<std::vector<PackedProgram::Piece>> PackedProgram::train_pieces(
    std::int64_t batch) const {
  std::vector<std::vector<Piece>> out;
  if (const ListedBatches* known = listed(Pass::train)) {
    std::int64_t left = 0;  // sequences that the running mini-batch still takes
    for (const auto& lengths : known->micro_batches) {
      if (left <= 0) {
        out.emplace_back();
        left = context_.mini_batch;
      }
      out.back().push_back({listed_batch(role(), Pass::train, lengths)});
      left -= static_cast<std::int64_t>(lengths.size());
    }
    return out;
  }
  const std::int64_t steps = std::max<std::int64_t>(
      1, context_.epochs * (batch / std::max<std::int64_t>(1, context_.mini_batch)));
  const std::int64_t all = std::max<std::int64_t>(1, context_.packed_train.count);
  const std::int64_t runs = std::min<std::int64_t>(all, 3);
  for (std::int64_t step = 0; step < std::min<std::int64_t>(steps, 2); ++step) {
    const double times = step == 0 ? 1 : static_cast<double>(steps - 1);
    std::vector<Piece>& pieces = out.emplace_back();
    for (std::int64_t i = 0; i < runs; ++i)
      pieces.push_back(
          {context_.packed_train, i == 1 && runs == 3 ? times * static_cast<double>(all - 2) : times});
  }
  return out;
}

// --- One micro-batch

void PackedProgram::repeat(double times) {
  if (context_.repeat != nullptr) *context_.repeat = times;
}

tape::ModelInput PackedProgram::packed_input(const MicroBatches& batch) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  tape::ModelInput input;
  input.ids = tape_.empty({1, batch.tokens_per_rank}, DType::int64, kInput);
  input.position_ids = tape_.empty({1, batch.tokens_per_rank}, DType::int64, kInput);
  tape_.memory().wait_event(tape_.memory().record_event(0));  // packing reads the lengths back to the host
  model_->options().packed_sequences = std::max<std::int64_t>(1, batch.sequences);
  return input;
}

PackedProgram::Outputs PackedProgram::fused(const tape::ModelInput& input, const Tensor& labels) {
  Outputs out;
  out.logprobs = model_->forward(input, [&](Tensor hidden) {
    Tensor rows = tape::view(std::move(hidden), {labels.size(0), -1});
    tape::FusedOutput both =
        tape::fused_linear_logprobs(std::move(rows), model_->head_table(), labels, role().loss.chunk);
    out.entropy = std::move(both.entropy);
    return std::move(both.logprobs);
  });
  return out;
}

PackedProgram::Outputs PackedProgram::run(const MicroBatches& batch, Entropy entropy) {
  const LossSpec& loss = role().loss;
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  tape::ModelInput input = packed_input(batch);
  const Tensor labels = tape::view(input.ids, {-1});
  if (loss.token_logprob == TokenLogprob::fused_linear) return fused(input, labels);
  Outputs out;
  out.logits = model_->forward(input);
  const tape::ComponentScope component(tape_, Component::logits);
  Tensor rows = tape::view(out.logits, {labels.size(0), -1});
  if (loss.logits_fp32) rows = tape::to(std::move(rows), DType::fp32);
  Tensor scaled = loss.temperature_copy ? tape::mul_scalar(rows) : tape::div_scalar_in_place(rows);
  rows.reset();
  if (entropy != Entropy::none) {
    if (loss.entropy_chunk > 0)
      out.entropy = tape::chunked_entropy(scaled, loss.entropy_chunk);
    else if (loss.entropy_compiled)
      out.entropy = tape::compiled_entropy(scaled);
    else
      out.entropy = tape::eager_entropy(scaled);
  }
  if (loss.token_logprob == TokenLogprob::flash_cross_entropy) {
    // Written over the logits in the backward, unless the entropy still needs them.
    Tensor nll = tape::flash_cross_entropy(std::move(scaled), labels, entropy == Entropy::none);
    out.logprobs = tape::neg(std::move(nll));
  } else {
    Tensor table = tape::log_softmax(std::move(scaled));
    Tensor index = tape::unsqueeze(labels, -1);
    out.logprobs = tape::squeeze(tape::gather(std::move(table), std::move(index)), -1);
  }
  return out;
}

Tensor PackedProgram::forward(const Experience&, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::activations);
  const bool training = std::exchange(model_->options().training, role().training_mode_forward);
  std::vector<Tensor> results;
  for (const Piece& piece : forward_pieces()) {
    repeat(piece.times);
    if (output == Output::logprobs) {
      Outputs outputs = run(piece.batch, acting().loss.logprob_entropy);
      outputs.logits.reset();
      results.push_back(std::move(outputs.logprobs));
      if (outputs.entropy.defined()) results.push_back(std::move(outputs.entropy));
    } else {
      const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
      results.push_back(model_->forward(packed_input(piece.batch)));
    }
  }
  repeat(1);
  model_->options().training = training;
  return {};  // results go to the host with the batch
}

// --- Training

Tensor PackedProgram::value_loss(const MicroBatches& batch) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    values = model_->forward(packed_input(batch));
  }
  Tensor wide = tape::to(std::move(values), DType::fp32);
  Tensor targets = tape_.empty(wide.shape(), DType::fp32, kInput);
  return tape::mse_loss(std::move(wide), std::move(targets));
}

Tensor PackedProgram::packed_loss(const MicroBatches& batch) {
  if (role().head != HeadKind::language_model) return value_loss(batch);
  Outputs outputs = run(batch, role().loss.train_entropy);
  if (role().loss.keeps_logits) kept_logits_ = outputs.logits;
  return packed_policy_loss(tape_, role().loss, outputs.logprobs, outputs.entropy);
}

void PackedProgram::run_micro_batch(const MicroBatches& batch, bool last) {
  if (runtime_) runtime_->set_gradient_sync(last || !role().sharding.defer_gradient_sync);
  Tensor scaled;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    scaled = tape::div_scalar(packed_loss(batch));
  }
  tape::backward(context_.engine, scaled);
  scaled.reset();
  kept_logits_.reset();
}

void PackedProgram::train(const Experience& experience) {
  for (const std::vector<Piece>& mini_batch : train_pieces(experience.batch)) {
    for (std::size_t i = 0; i < mini_batch.size(); ++i) {
      repeat(mini_batch[i].times);
      run_micro_batch(mini_batch[i].batch, i + 1 == mini_batch.size());
    }
    repeat(mini_batch.front().times);
    optimizer_step();
  }
  repeat(1);
}

void PackedProgram::optimizer_step() {
  if (!runtime_) {
    RoleProgram::optimizer_step();
    return;
  }
  const tape::GradMode no_grad(tape_, false);
  if (role().sharding.cpu_offload) {
    create_states();
    for (const Tensor& shard : parameters_) tape_.set_grad(shard, {});
    return;
  }
  if (role().optimizer.clip)
    tape::clip_grad_norm(tape_, optimizer_->parameters(),
                         {.ranks = context_.ranks, .dtensor = role().sharding.kind == ShardingKind::fsdp2});
  optimizer_->step();
  optimizer_->zero_grad();
}

// --- Residency

void PackedProgram::move(unsigned parts, bool to_device, bool first_step) {
  if (!runtime_) {
    RoleProgram::move(parts, to_device, first_step);
    return;
  }
  if ((parts & kWeights) != 0) {
    if (to_device)
      runtime_->load();
    else
      runtime_->offload(role().offload_pinned ? HostKind::pinned : HostKind::pageable);
  }
  if ((parts & kOptimizer) == 0 || !optimizer_ || role().sharding.cpu_offload) return;
  const tape::ComponentScope component(tape_, Component::optimizer);
  const auto one = [&](Tensor& tensor) {
    if (!tensor.defined() || (tensor->storage->device == tape::Device::gpu) == to_device) return;
    const tape::ModuleScope module(tape_, tensor->storage->label.module);
    tape_.set_data(tensor, to_device ? tape_.empty(tensor.shape(), tensor.dtype(), kHostState)
                                     : tape_.empty_host(tensor.shape(), tensor.dtype(), HostKind::pinned));
  };
  for (tape::AdamW::State& state : optimizer_->states()) {
    one(state.average);
    one(state.square_average);
  }
}

PackedProgram::Extent PackedProgram::extent() const {
  Extent out;
  std::map<int, Bytes> units;
  const DType stored = role().precision.weights;
  for (const tape::ParameterSlot& slot : model_->parameters()) {
    const Bytes bytes = bytes_of(stored, slot.tensor->defined() ? slot.tensor->elements() : 0);
    out.largest = std::max(out.largest, bytes);
    units[slot.layer] += bytes;
  }
  for (const auto& [layer, bytes] : units)
    (layer < 0 ? out.root : out.layer) = std::max(layer < 0 ? out.root : out.layer, bytes);
  return out;
}

/// FSDP1's state dict unshards one unit after the other in full precision, the root held open around its
/// children, and clones each full tensor before it is cut; sharded copies of everything stay until the sync
/// has sent them.
void PackedProgram::export_weights() {
  if (role().sharding.kind != ShardingKind::fsdp1) return;
  const Extent size = extent();
  const tape::ComponentScope component(tape_, Component::staging);
  {
    const Tensor root = tape_.empty({size.root}, DType::uint8, kExport);
    const Tensor clone = tape_.empty({size.largest}, DType::uint8, kExport);
  }
  const Tensor root = tape_.empty({size.root}, DType::uint8, kExport);
  for (const Tensor& shard : runtime_->shards())
    exported_.push_back(tape_.empty(shard.shape(), shard.dtype(), kExported));
  const Tensor layer = tape_.empty({size.layer}, DType::uint8, kExport);
  const Tensor clone = tape_.empty({std::min(size.largest, size.layer)}, DType::uint8, kExport);
}

void PackedProgram::sync_weights(const WeightSync& sync) {
  const Extent size = extent();
  const tape::ComponentScope component(tape_, Component::staging);
  const Bytes stored = element_size(role().precision.weights);
  const auto sent_bytes = [&](Bytes bytes) { return bytes / stored * element_size(sync.dtype); };
  Tensor gathered;
  if (sync.kind == WeightExport::full_parameters)
    gathered = tape_.empty({whole_bytes()}, DType::uint8, kSend);
  if (sync.kind == WeightExport::layers)  // adapters stand in layers only
    gathered =
        tape_.empty({sync.adapters_only ? size.layer : std::max(size.root, size.layer)}, DType::uint8, kSend);
  if (!sync.adapters_only) {
    const Tensor whole = tape_.empty({size.largest}, DType::uint8, kSend);
    const Bytes largest = sent_bytes(size.largest);
    Tensor cast;
    if (largest != size.largest) cast = tape_.empty({largest}, DType::uint8, kSend);
    const Tensor sent =
        tape_.empty({std::max(sync.bucket, largest > sync.bucket ? largest : 0)}, DType::uint8, kBucket);
  }
  gathered.reset();
  while (!exported_.empty()) exported_.pop_back();
}

Bytes PackedProgram::whole_bytes() const {
  Bytes sum = 0;
  for (const tape::ParameterSlot& slot : model_->parameters())
    if (slot.tensor->defined()) sum += bytes_of(role().precision.weights, slot.tensor->elements());
  return sum;
}

void PackedProgram::save() {
  const bool flat = role().sharding.kind == ShardingKind::fsdp1;
  if (flat) {
    const Extent size = extent();
    const tape::ComponentScope component(tape_, Component::staging);
    const Tensor root = tape_.empty({size.root}, DType::uint8, kExport);
    const Tensor layer = tape_.empty({size.layer}, DType::uint8, kExport);
    const Tensor clone = tape_.empty({size.largest}, DType::uint8, kExport);
  }
  // The sharded states are written from host memory.
  std::vector<Tensor> written;
  for (const Tensor& shard : parameters_) {
    const tape::ComponentScope component(tape_, Component::staging);
    written.push_back(tape_.empty_host(shard.shape(), shard.dtype(), HostKind::pageable));
    if (optimizer_)
      for (int moment = 0; moment < 2; ++moment)
        written.push_back(tape_.empty_host(shard.shape(), shard.dtype(), HostKind::pageable));
  }
}

}  // namespace headroom::phases
