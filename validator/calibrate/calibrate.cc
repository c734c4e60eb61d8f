#include <fmt/format.h>

#include "validator/calibrate/process_memory.h"
#include "validator/calibrate/rates.h"
#include "validator/cuda/group.h"
#include "validator/validate.h"

namespace headroom::gpu {
namespace {

Status measure_rates(const CalibrateOptions& options, launch::Rendezvous& ranks, Measurements& out) {
  HEADROOM_ASSIGN(const Arena arena, Arena::create(4 * kGiB));
  HEADROOM_TRY(measure_latency(out));
  HEADROOM_TRY(measure_copy_rates(arena, out));
  HEADROOM_TRY(measure_matrix_rates(arena, out));
  HEADROOM_TRY(measure_attention_rates(arena, out));
  HEADROOM_TRY(measure_host_rates(arena, out));
  if (options.kernels) HEADROOM_TRY(measure_kernel_rates(arena, out));
  if (ranks.place().ranks == 1 || !out.versions.contains("nccl")) return {};
  HEADROOM_ASSIGN(Communicator group, join_group(ranks));
  HEADROOM_TRY(measure_collective_rates(group, arena, out));
  return group.close();
}

}  // namespace

Status available() {
  HEADROOM_TRY(card_count());
  return {};
}

Result<int> visible_cards() {
  return card_count();
}

Result<Measurements> calibrate(const CalibrateOptions& options, const launch::Place& place) {
  Measurements out;
  out.gpus = place.ranks;
  // Before the meeting: a rank without a card keeps nobody waiting.
  HEADROOM_ASSIGN(const int cards, card_count());
  const int card = place.card(cards);
  if (card >= cards) return fail(fmt::format("GPU {} does not exist: this process sees {}", card, cards));
  HEADROOM_ASSIGN(launch::Rendezvous ranks, launch::Rendezvous::meet(place));
  MemoryLog log(out);
  HEADROOM_TRY(measure_process(card, out, log));
  HEADROOM_TRY(measure_communicators(ranks, out, log));
  if (options.rates) HEADROOM_TRY(measure_rates(options, ranks, out));
  HEADROOM_TRY(ranks.barrier());
  return out;
}

}  // namespace headroom::gpu
