#include "simulator/phases/megatron_role.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/architecture/stacked_experts.h"
#include "models/sharding/ranks.h"
#include "simulator/tape/megatron/loss.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/packed_loss.h"

namespace headroom::phases {
namespace {

using tape::Tensor;
namespace megatron = tape::megatron;

const std::uint16_t kInput = tape::operation_name("micro_batch"),
                    kReceived = tape::operation_name("p2p::received"),
                    kReceivedGradient = tape::operation_name("p2p::received_gradient"),
                    kSquares = tape::operation_name("loss::sum_pi_squared"),
                    kGathered = tape::operation_name("weight_sync::full_tensor"),
                    kBucket = tape::operation_name("weight_sync::bucket");

}  // namespace

// --- Building

Status MegatronRole::build() {
  const Role& r = role();
  HEADROOM_ASSIGN(const RankPlace place, rank_place(r.parallel, context_.world, context_.rank));
  HEADROOM_ASSIGN(const DataParallel data, data_parallel(r.parallel, context_.world));
  megatron::Options options;
  options.parallel = r.parallel;
  options.switches = r.megatron;
  options.switches.fp8 = r.megatron.fp8 || r.megatron.fp8_parameters;
  options.recompute = r.recompute;
  options.vocabulary = {r.megatron.vocabulary_multiple, r.megatron.vocabulary_multiple_a_rank};
  options.head = r.head;
  options.stage = place.pipeline;
  options.dtype = r.precision.weights;
  options.trainable = r.trained;
  options.attention = r.attention;
  options.lora = r.lora;
  options.role = r.name;
  options.modules = r.takes_place_of.empty() ? r.name : r.takes_place_of;
  Architecture model = *r.model;
  model.head = r.head;
  if (r.head != HeadKind::language_model) model.labels = std::max<std::int64_t>(1, model.labels);
  model_architecture_ = std::make_unique<Architecture>(std::move(model));
  HEADROOM_ASSIGN(stage_, megatron::Stage::make(*model_architecture_, r.name,
                                                {tape_, context_.engine, *context_.process, options}));
  for (std::int64_t s = 0; s < r.parallel.pipeline; ++s) {
    HEADROOM_ASSIGN(const MegatronStage part,
                    megatron_stage(*model_architecture_, r.parallel, options.vocabulary, s, r.megatron.layers,
                                   r.megatron.grouped_experts, r.megatron.mtp_layers));
    for (const MegatronWeight& weight : part.weights) {
      const std::int64_t ranks = weight.shape.size() < 2 ? 1
                                 : weight.expert         ? r.parallel.expert * expert_tensor_of(r.parallel)
                                                         : r.parallel.tensor;
      const Bytes all = bytes_of(options.dtype, weight.count());
      const Bytes local = has_stacked_checkpoint(*model_architecture_) ? all : all / weight.copies;
      if (local * ranks <= largest_gathered_) continue;
      largest_gathered_ = local * ranks;
      largest_local_ = local;
    }
  }
  if (!r.trained) return {};
  megatron::GradientBuffers::Options buffers;
  // Precision-aware optimizers may take half gradients; else only the reduction's dtype says.
  buffers.gradients = r.precision.gradients != DType::fp32 ? r.precision.gradients : r.precision.reduce;
  buffers.contiguous_parameters = r.sharding.distributed_optimizer;
  if (r.sharding.distributed_optimizer) {
    buffers.dense_ranks = data.dense * r.parallel.context;
    buffers.expert_ranks = data.expert;
    buffers.dense_rank = place.context + r.parallel.context * place.data;
    buffers.expert_rank = place.expert_data;
  }
  buffers.overlap = r.megatron.overlaps_gradients;
  buffers.stream = r.megatron.wraps_on_own_stream ? context_.first_stream : 0;
  buffers_ = std::make_unique<megatron::GradientBuffers>(*stage_, buffers);
  return {};
}

void MegatronRole::build_optimizer() {
  if (!buffers_) return;
  const Optimizer& o = role().optimizer;
  megatron::OptimizerOptions options;
  options.precision_aware = role().megatron.precision_aware;
  options.moments = o.states.value_or(DType::fp32);
  options.sgd = o.kind == OptimizerKind::sgd;
  options.cpu_fraction = o.cpu_fraction;
  // Without TransformerEngine (or apex) Adam is PyTorch's, and gradients are clipped operator by operator.
  const bool own = role().megatron.layers == MegatronLayers::local;
  options.multi_tensor = !own;
  options.foreach_ = own && o.implementation == OptimizerImplementation::foreach_;
  options.clip = o.clip;
  states_ = std::make_unique<megatron::Optimizer>(tape_, *buffers_, options);
}

void MegatronRole::create_states() {
  if (states_) states_->create_states();
}

// --- Forward

std::int64_t MegatronRole::tokens(const MicroBatches& batch) const {
  return round_up(std::max<std::int64_t>(1, batch.tokens_per_rank), role().parallel.tensor);
}

bool MegatronRole::last(std::int64_t chunk) const {
  return stage_->layout().head && chunk + 1 == static_cast<std::int64_t>(stage_->layout().chunks.size());
}

Tensor MegatronRole::chunk_forward(std::int64_t chunk, InFlight& piece, const MicroBatches& batch) {
  megatron::Context& c = stage_->context();
  c.sequences = std::max<std::int64_t>(1, batch.sequences);
  const std::int64_t all = tokens(batch);
  if (!first(chunk)) {
    if (!piece.input.defined()) piece.input = received(all, kReceived);
    piece.input->requires_grad = tape_.grad_enabled();
    held_input_[chunk] = piece.input;  // set_input_tensor
  }
  {
    const tape::ComponentScope component(tape_, Component::temporaries);
    piece.batch = tape_.empty({2, all}, DType::int64, kInput);  // ids and positions
  }
  Tensor hidden = first(chunk) ? stage_->embed(tape::select(piece.batch, 0, 0)) : piece.input;
  return stage_->layers(static_cast<std::size_t>(chunk), hidden);
}

Tensor MegatronRole::received(std::int64_t all, std::uint16_t name) {
  const megatron::Context& c = stage_->context();
  return tape_.empty({all / c.token_split(), role().model->decoder.hidden}, c.options.dtype, name);
}

MegatronRole::Outputs MegatronRole::token_outputs(Tensor hidden, const Tensor& batch, Entropy entropy) {
  megatron::Context& c = stage_->context();
  const LossSpec& loss = role().loss;
  Outputs out;
  Tensor normed = stage_->final_norm(std::move(hidden));
  if (stage_->predicts_ahead() && role().megatron.mtp_trained)
    normed = with_predictions(std::move(normed), tape::select(batch, 0, 0));
  if (loss.token_logprob == TokenLogprob::fused_linear) {
    Tensor rows = stage_->whole_tokens(std::move(normed));
    Tensor labels = tape_.empty({rows.size(0)}, DType::int64, kInput);
    tape::FusedOutput both =
        tape::fused_linear_logprobs(std::move(rows), stage_->head_weight(), std::move(labels), loss.chunk);
    out.logprobs = std::move(both.logprobs);
    out.entropy = std::move(both.entropy);
    return out;
  }
  Tensor logits = stage_->logits(std::move(normed));
  const tape::ComponentScope component(tape_, Component::logits);
  if (loss.logits_fp32) {
    logits = tape::to(std::move(logits), DType::fp32);
    Tensor scaled = tape::div_scalar_in_place(logits);
    logits = std::move(scaled);
  }
  Tensor nll;
  if (loss.token_logprob == TokenLogprob::flash_cross_entropy && !loss.logits_fp32) {
    const Tensor labels = tape_.empty({logits.size(0)}, DType::int64, kInput);
    nll = tape::flash_cross_entropy(std::move(logits), labels, true);
  } else if (entropy != Entropy::none) {
    // The entropy reads logits that the cross-entropy overwrites.
    Tensor copy = tape::clone(logits);
    if (loss.sum_pi_squared) {
      const Tensor squares = tape_.empty({2, logits.elements()}, DType::fp32, kSquares);
    }
    out.entropy = megatron::vocab_parallel_entropy(c, logits, loss.entropy_chunk);
    nll = megatron::vocab_parallel_cross_entropy(c, std::move(copy));
  } else if (role().megatron.fused_cross_entropy && tape_.grad_enabled() && !loss.logits_fp32) {
    nll = megatron::compiled_cross_entropy(c, std::move(logits));
  } else {
    nll = megatron::vocab_parallel_cross_entropy(c, std::move(logits));
  }
  out.logprobs = tape::neg(std::move(nll));
  return out;
}

/// Every depth of multi-token prediction has logits and a loss of its own, whose backward begins with the model's.
Tensor MegatronRole::with_predictions(Tensor normed, const Tensor& ids) {
  megatron::Context& c = stage_->context();
  const std::int64_t rows = normed.size(0);
  Tensor all = stage_->predict_ahead(std::move(normed), ids);
  const std::vector<Tensor> parts = tape::split(std::move(all), 0, rows);
  Tensor out = parts.front(), logits;
  const tape::ComponentScope component(tape_, Component::logits);
  for (std::size_t depth = 1; depth < parts.size(); ++depth) {
    logits = stage_->logits(parts[depth]);  // the one before lives until this one exists
    Tensor loss = role().megatron.fused_cross_entropy ? megatron::compiled_cross_entropy(c, logits)
                                                      : megatron::vocab_parallel_cross_entropy(c, logits);
    Tensor masked = tape::mul_scalar(std::move(loss));
    Tensor scaled = tape::div_scalar(std::move(masked));
    out = megatron::with_loss(c, std::move(out), scaled);
  }
  return out;
}

Tensor MegatronRole::forward(const Experience&, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::activations);
  const MicroBatches& batch = context_.packed_forward;
  const Parallel& p = role().parallel;
  std::vector<Outputs> results;
  stage_->context().training = role().training_mode_forward;
  if (p.virtual_pipeline > 1) {
    const std::int64_t all = round_up(std::max<std::int64_t>(1, batch.count), p.pipeline);
    const std::int64_t runs = megatron::distinct_micro_batches(p.pipeline, p.virtual_pipeline, all);
    repeat((static_cast<double>(all) * batch.filled + bubble()) / static_cast<double>(runs));
    forward_interleaved(runs, output, results);
  }
  const std::int64_t all = p.virtual_pipeline > 1 ? 0 : batch.count, runs = std::min<std::int64_t>(all, 2);
  for (std::int64_t i = 0; i < runs; ++i) {
    // The first one stands for the pipeline's filling too.
    repeat(i == 0 ? static_cast<double>(p.pipeline) : std::max(0.0, static_cast<double>(all) * batch.filled - 1));
    InFlight piece;
    Tensor hidden = chunk_forward(0, piece, batch);
    if (last(0)) {
      keep_results(std::move(hidden), piece.batch, output, results);
      last_output_.reset();
    } else {
      last_output_ = std::move(hidden);
    }
    if (role().empties_each_micro_batch) tape_.memory().empty_cache();
  }
  repeat(1);
  last_output_.reset();
  stage_->context().training = true;
  if (states_) states_->collect_garbage();
  return {};  // results go to the host with the batch
}

void MegatronRole::keep_results(Tensor hidden, const Tensor& batch, Output output, std::vector<Outputs>& results) {
  if (output == Output::logprobs) {
    results.push_back(token_outputs(std::move(hidden), batch, role().loss.logprob_entropy));
  } else {
    Tensor normed = stage_->final_norm(std::move(hidden));
    results.push_back({stage_->values(std::move(normed)), {}});
  }
}

// --- Virtual stages

InterleavedSchedule::Place MegatronRole::interleaved() const {
  const Parallel& p = role().parallel;
  return {.stages = p.pipeline,
          .chunks = p.virtual_pipeline,
          .stage = stage_->context().options.stage,
          .sends = static_cast<Stream>(context_.first_stream + 1),
          .receives = static_cast<Stream>(context_.first_stream + 2),
          .drops_outputs = role().megatron.deallocates_outputs};
}

void MegatronRole::forward_interleaved(std::int64_t micro_batches, Output output, std::vector<Outputs>& results) {
  const MicroBatches& batch = context_.packed_forward;
  InterleavedSchedule::Work work;
  work.forward = [&](std::int64_t chunk, const Tensor& input) {
    InFlight piece;
    piece.input = input;
    InterleavedSchedule::Piece out;
    out.output = chunk_forward(chunk, piece, batch);
    if (last(chunk)) keep_results(std::move(out.output), piece.batch, output, results);
    if (role().empties_each_micro_batch) tape_.memory().empty_cache();
    return out;
  };
  work.receive = [&](bool) { return received(tokens(batch), kReceived); };
  InterleavedSchedule(tape_, interleaved(), std::move(work)).forward(micro_batches);
}

void MegatronRole::train_interleaved(std::int64_t micro_batches) {
  InterleavedSchedule::Work work;
  work.forward = [this](std::int64_t chunk, const Tensor& input) {
    InFlight piece;
    piece.input = input;
    InterleavedSchedule::Piece out;
    out.output = train_forward(chunk, piece);
    out.batch = std::move(piece.batch);
    return out;
  };
  work.backward = [this](std::int64_t chunk, const Tensor& input, const Tensor& output, const Tensor& gradient) {
    Tensor of_input = train_backward(chunk, input, output, gradient);
    if (role().empties_each_micro_batch) tape_.memory().empty_cache();
    return of_input;
  };
  work.receive = [this](bool gradient) {
    const tape::ComponentScope component(tape_, Component::temporaries);
    return received(tokens(context_.packed_train), gradient ? kReceivedGradient : kReceived);
  };
  InterleavedSchedule(tape_, interleaved(), std::move(work)).train(micro_batches);
}

/// While the pipeline fills and drains, ranks wait for (stages - 1) / chunks micro-batches.
double MegatronRole::bubble() const {
  const Parallel& p = role().parallel;
  return static_cast<double>(p.pipeline - 1) / static_cast<double>(p.virtual_pipeline);
}

// --- Training

Tensor MegatronRole::training_loss(Tensor hidden, const Tensor& batch) {
  if (role().head == HeadKind::language_model) {
    const Outputs outputs = token_outputs(std::move(hidden), batch, role().loss.train_entropy);
    const bool bonus = role().loss.train_entropy == Entropy::backward;
    return trainer::packed_policy_loss(tape_, role().loss, outputs.logprobs,
                                       bonus ? outputs.entropy : Tensor());
  }
  Tensor normed = stage_->final_norm(std::move(hidden));
  Tensor values = stage_->values(std::move(normed));
  Tensor targets = tape_.empty(values.shape(), DType::fp32, kInput);
  return tape::mse_loss(std::move(values), std::move(targets));
}

Tensor MegatronRole::train_forward(std::int64_t chunk, InFlight& piece) {
  const tape::ComponentScope component(tape_, Component::activations);
  Tensor hidden = chunk_forward(chunk, piece, context_.packed_train);
  if (!last(chunk)) return hidden;
  Tensor loss = training_loss(std::move(hidden), piece.batch);
  return tape::div_scalar(std::move(loss));
}

Tensor MegatronRole::train_backward(std::int64_t chunk, const Tensor& input, const Tensor& output,
                                    const Tensor& gradient) {
  if (last(chunk))
    tape::backward(context_.engine, output);
  else
    tape::backward(context_.engine, output, gradient);
  return input.defined() ? input.grad() : Tensor();
}

void MegatronRole::forward_step(const megatron::PipelineStep& step) {
  InFlight& piece = in_flight_[step.micro_batch];
  piece.output = train_forward(0, piece);
  const bool passes_through = piece.input.defined() && piece.output->storage == piece.input->storage;
  if (role().megatron.deallocates_outputs && !last(0) && !passes_through) tape_.shrink_storage(piece.output);
  last_output_.reset();
}

void MegatronRole::backward_step(const megatron::PipelineStep& step) {
  {
    InFlight piece = std::move(in_flight_.extract(step.micro_batch).mapped());
    const tape::ComponentScope component(tape_, Component::temporaries);
    const Tensor gradient =
        last(0) ? Tensor() : received(tokens(context_.packed_train), kReceivedGradient);
    input_gradient_ = train_backward(0, piece.input, piece.output, gradient);
    last_output_ = std::move(piece.output);
  }
  if (role().empties_each_micro_batch) tape_.memory().empty_cache();
}

void MegatronRole::train_mini_batch(double times) {
  const Parallel& p = role().parallel;
  std::int64_t all = std::max<std::int64_t>(1, context_.packed_train.count);
  if (p.virtual_pipeline > 1) all = round_up(all, p.pipeline);
  if (states_) states_->zero_gradients();
  const std::int64_t runs = megatron::distinct_micro_batches(p.pipeline, p.virtual_pipeline, all);
  const double filled = static_cast<double>(all) * context_.packed_train.filled;
  repeat(times * (filled + bubble()) / static_cast<double>(runs));
  if (p.virtual_pipeline > 1) {
    train_interleaved(runs);
  } else {
    for (const megatron::PipelineStep& step :
         megatron::pipeline_schedule(p.pipeline, 1, stage_->context().options.stage, runs))
      step.forward ? forward_step(step) : backward_step(step);
    tape::drop(last_output_, input_gradient_);
  }
  repeat(times);
  const tape::GradMode no_grad(tape_, false);
  if (!states_) return;
  states_->collect_garbage();
  states_->step();
}

void MegatronRole::train(const Experience& experience) {
  const std::int64_t all = std::max<std::int64_t>(
      1, context_.epochs * (experience.batch / std::max<std::int64_t>(1, context_.mini_batch)));
  const std::int64_t runs = std::min<std::int64_t>(all, 2);
  for (std::int64_t i = 0; i < runs; ++i) train_mini_batch(i == 0 ? 1 : static_cast<double>(all - 1));
  repeat(1);
}

// --- Residency

void MegatronRole::move_weights(bool to_device) {
  if (buffers_) {
    to_device ? buffers_->load_parameters() : buffers_->offload_parameters();
    if (!role().lora) return;
  }
  const tape::ComponentScope component(tape_, Component::weights);
  const HostKind kind = role().offload_pinned ? HostKind::pinned : HostKind::pageable;
  for (const megatron::Stage::Parameter& parameter : stage_->parameters()) {
    const Tensor& tensor = parameter.tensor;
    if (buffers_ && tensor->requires_grad) continue;
    if ((tensor->storage->device == tape::Device::gpu) == to_device) continue;
    tape_.set_data(tensor, to_device ? tape::to_device(tensor) : tape::to_host(tensor, kind));
  }
}

void MegatronRole::move(unsigned parts, bool to_device) {
  if ((parts & kWeights) != 0) move_weights(to_device);
  if ((parts & kGradients) != 0 && buffers_)
    to_device ? buffers_->load_gradients() : buffers_->release_gradients();
  if (!states_) return;
  if ((parts & kMasterWeights) != 0) states_->move_masters(to_device);
  if ((parts & kOptimizer) == 0) return;
  states_->move_moments(to_device);
  if (!to_device) context_.process->clear();
}

void MegatronRole::release(unsigned parts) {
  if ((parts & kGradients) != 0 && buffers_) buffers_->release_gradients();
}

/// The bridge gathers one weight after the other: its part comes from the stage that has it, the parts of all
/// ranks are gathered, and joined to the whole that is sent.
void MegatronRole::sync_weights(const WeightSync& sync) {
  const tape::ComponentScope component(tape_, Component::staging);
  const bool parts = largest_gathered_ > largest_local_;
  Tensor received, gathered;
  if (role().parallel.pipeline > 1) received = tape_.empty({largest_local_}, DType::uint8, kGathered);
  if (parts) gathered = tape_.empty({largest_gathered_}, DType::uint8, kGathered);
  const Tensor whole = tape_.empty({largest_gathered_}, DType::uint8, kGathered);
  gathered.reset();
  const Tensor bucket = tape_.empty({std::max(sync.bucket, Bytes{0})}, DType::uint8, kBucket);
}

/// A distributed checkpoint is written from host copies of what this rank holds.
void MegatronRole::save(unsigned parts, bool /*gathered*/) {
  const tape::ComponentScope component(tape_, Component::staging);
  std::vector<Tensor> written;
  if ((parts & kWeights) != 0)
    for (const megatron::Stage::Parameter& parameter : stage_->parameters())
      written.push_back(
          tape_.empty_host(parameter.tensor.shape(), parameter.tensor.dtype(), HostKind::pageable));
  if (states_ && (parts & kOptimizer) != 0)
    for (int state = 0; state < 3; ++state)
      written.push_back(tape_.empty_host({states_->elements()}, DType::fp32, HostKind::pageable));
}

}  // namespace headroom::phases
