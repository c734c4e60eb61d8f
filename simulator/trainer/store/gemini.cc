#include "simulator/trainer/store/gemini.h"

namespace headroom::trainer {

Status GeminiStore::build() {
  if (role().built_on_host) tape_.set_stopped(true);
  const Status built = build_model();
  tape_.set_stopped(false);
  return built;
}

void GeminiStore::build_optimizer() {
  if (gemini_) return;
  const Sharding& sharding = role().sharding;
  tape::GeminiOptions options;
  options.search.ranks = context_.ranks;
  options.dtype = role().precision.weights;
  options.placement = sharding.placement;
  options.gradient_chunks = sharding.gradient_chunks;
  options.overlaps = sharding.overlap_communication;
  options.joins_lists = sharding.joins_lists;
  options.pin_memory = sharding.pin_memory;
  options.loss_scaling = role().precision.gradient_scaler;
  options.clips = role().optimizer.clip;
  options.reduce_stream = context_.first_stream;
  if (context_.communicator_made) context_.communicator_made();
  gemini_ = std::make_unique<tape::Gemini>(*model_, context_.engine, options);
}

void GeminiStore::step() {
  gemini_->step(updates_++ < role().precision.skipped_steps);
}

/// Chunk by chunk is gathered and copied to the host.
void GeminiStore::save(unsigned /*parts*/, bool /*gathered*/) {
  const tape::ComponentScope component(tape_, Component::staging);
  const tape::Tensor weights = tape_.empty_host({extent().whole}, DType::uint8, HostKind::pageable);
}

}  // namespace headroom::trainer
