#include "simulator/tape/megatron/gradient_buffers.h"

#include <algorithm>
#include <numeric>

#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kParameters = operation_name("megatron::param_buffer"),
                    kGradients = operation_name("megatron::grad_buffer"),
                    kOffload = operation_name("megatron::offload"), kLoad = operation_name("megatron::load");

constexpr std::int64_t kParameterStart = 64, kBucketEnd = 128;
/// A bucket's elements while gradients are reduced during the backward, and its elements a rank.
constexpr std::int64_t kBucket = 40'000'000, kBucketARank = 1'000'000;

}  // namespace

GradientBuffers::GradientBuffers(Stage& stage, const Options& options)
    : tape_(stage.context().tape), options_(options) {
  const StreamScope stream(tape_, options_.stream);  // the wrapper's own memory belongs to the stream it is made on
  for (std::int32_t chunk = 0; chunk < static_cast<std::int32_t>(stage.layout().chunks.size()); ++chunk)
    for (const bool expert : {false, true}) {
      std::vector<DType> dtypes;  // in the order in which the model has them
      for (const Stage::Parameter& parameter : stage.parameters())
        if (const DType dtype = parameter.tensor.dtype();
            belongs(stage, parameter, chunk, expert) && std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end())
          dtypes.push_back(dtype);
      for (const DType dtype : dtypes) add_buffer(stage, chunk, expert, dtype);
    }
}

bool GradientBuffers::belongs(const Stage& stage, const Stage::Parameter& parameter, std::int32_t chunk, bool expert) {
  const bool apart = stage.options().parallel.expert > 1;
  return parameter.weight.chunk == chunk && parameter.tensor->requires_grad &&
         (parameter.weight.expert && apart) == expert;
}

/// Whether two stages hold that weight: the embedding that the head is tied to, or that multi-token prediction needs.
bool GradientBuffers::is_shared(const Stage& stage, const std::string& name) {
  const bool predicts = stage.options().switches.mtp_layers > 0, tied = stage.model().decoder.tied_embeddings;
  if (name == "embedding.word_embeddings.weight") return tied || predicts;
  return name == "output_layer.weight" && tied && !predicts;
}

/// Slots and buckets. The copy of tied embeddings that two pipeline stages share has a bucket of its own.
void GradientBuffers::lay_out(Stage& stage, Buffer& buffer, std::int32_t chunk, bool expert, DType dtype) const {
  const Parallel& parallel = stage.context().options.parallel;
  const bool padded = options_.contiguous_parameters;
  const bool first_chunk = stage.context().options.stage == 0 && chunk == 0;
  const std::int64_t target = std::max(kBucket, kBucketARank * parallel.context * options_.dense_ranks);
  std::int64_t next = 0, begun = 0;
  const auto close = [&](std::int64_t end) {
    if (padded) end = round_up(end, std::lcm(buffer.ranks, kBucketEnd));
    buffer.buckets.push_back({begun, end});
    begun = next = end;
  };
  const std::vector<Stage::Parameter>& parameters = stage.parameters();
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (!belongs(stage, *p, chunk, expert) || p->tensor.dtype() != dtype) continue;
    const bool shared = padded && parallel.pipeline > 1 && is_shared(stage, p->weight.name);
    if (padded) next = round_up(next, kParameterStart);
    if (shared && next > begun) close(next);
    buffer.slots.push_back({p->tensor, next, p->tensor.elements(), p->weight.shape.size() > 1});
    next += p->tensor.elements();
    if (shared || (options_.overlap && first_chunk && next - begun >= target)) close(next);
  }
  if (next > begun) close(next);
  buffer.elements = begun;
}

void GradientBuffers::add_buffer(Stage& stage, std::int32_t chunk, bool expert, DType dtype) {
  Buffer buffer;
  buffer.expert = expert;
  buffer.ranks = expert ? options_.expert_ranks : options_.dense_ranks;
  buffer.rank = expert ? options_.expert_rank : options_.dense_rank;
  lay_out(stage, buffer, chunk, expert, dtype);
  const ModuleScope module(tape_, 0);
  if (options_.contiguous_parameters) {
    const ComponentScope component(tape_, Component::weights);
    buffer.parameters = tape_.empty({buffer.elements}, dtype, kParameters);
  }
  {
    const ComponentScope component(tape_, Component::gradients);
    buffer.gradients = tape_.empty({buffer.elements}, options_.gradients, kGradients);
  }
  for (const BufferSlot& slot : buffer.slots) {
    if (options_.contiguous_parameters)
      tape_.set_data(slot.parameter, tape_.alias(buffer.parameters, slot.parameter.shape(), slot.first));
    // Autograd sums a parameter's gradients on the stream on which its accumulator was made, and tells the allocator.
    if (options_.stream != 0) accumulators_.emplace_back(tape_.accumulator(slot.parameter));
    tape_.leaf_hooks(slot.parameter).accumulated.push_back(
        [this](const Tensor& leaf) { tape_.set_grad(leaf, {}); });
  }
  buffers_.push_back(std::move(buffer));
}

void GradientBuffers::offload_parameters() {
  const ComponentScope component(tape_, Component::weights);
  const bool first = host_.empty();
  for (Buffer& b : buffers_) {
    if (!b.parameters.defined() || b.parameters->storage->block == kNoBlock) continue;
    if (first) host_.push_back(tape_.empty_host({b.elements}, b.parameters.dtype(), HostKind::pinned));
    if (tape_.wants_operations()) Work(tape_, OperationKind::device_to_host, kOffload).in(b.parameters).run();
    tape_.shrink_storage(b.parameters);
  }
}

void GradientBuffers::load_parameters() {
  for (Buffer& b : buffers_) {
    if (!b.parameters.defined() || b.parameters->storage->block != kNoBlock) continue;
    tape_.regrow_storage(b.parameters, b.parameters.bytes());
    if (tape_.wants_operations()) Work(tape_, OperationKind::host_to_device, kLoad).out(b.parameters).run();
  }
}

void GradientBuffers::release_gradients() {
  for (Buffer& b : buffers_)
    if (b.gradients->storage->block != kNoBlock) tape_.shrink_storage(b.gradients);
}

void GradientBuffers::load_gradients() {
  for (Buffer& b : buffers_)
    if (b.gradients->storage->block == kNoBlock) tape_.regrow_storage(b.gradients, b.gradients.bytes());
}

}  // namespace headroom::tape::megatron
