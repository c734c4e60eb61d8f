#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planner/configuration/version.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/engine.h"

namespace headroom::engines {

/// What vLLM and SGLang do differently from release to release, once for all frameworks: data, with where it
/// is known from. The mechanisms that read the fields stand in simulator/engine.

enum class Standing {
  recorded,  ///< reproduces figures that start-up logs print
  read,      ///< read in source or in a merged change
  inferred,  ///< fits figures, and nothing here proves it; or its release is known within one minor
};

/// From release `since` on (until the next fact about the same field) `set` holds.
struct Fact {
  EngineKind kind;
  Version since;
  std::string_view what;
  Standing standing;
  std::string_view source;
  void (*set)(Engine&);
};

/// All, oldest first.
std::span<const Fact> facts();

/// What is taken when nothing tells the release: the newest whose start-ups are known.
std::string_view default_release(EngineKind kind);

/// What an installation adds to a release.
struct Installation {
  bool flashinfer_sampler = false;  ///< FlashInfer is there and its sampler in use (releases before 0.11.1)
  bool through_ray = false;         ///< vLLM's workers stand behind Ray's executor: until 0.25 no step is scheduled ahead
  bool first_engine = false;        ///< vLLM's V0 where V1 is the default (0.8 to 0.10): VLLM_USE_V1=0, old cards
};

/// Sets the fields of `engine` that its library's release decides, and `engine.release`. `engine.kind`, its
/// model (Model Runner V2 serves dense ones), its weights' type and LoRA slots must be set. A release that is empty or
/// no number counts as the default one.
void set_release(Engine& engine, std::string_view release, const Installation& installation = {});

/// Who starts it: `vllm serve` or an `AsyncLLM` behind its server; the class `LLM`; or an `AsyncLLM` made from
/// engine arguments, which says nothing of its use.
enum class EntryPoint { server, library, bare };

/// Sequences at once and tokens of a prefill step where nothing sets them.
struct Limits {
  std::int64_t sequences = 0, batched_tokens = 0;
};

/// vLLM: cards of 70 GiB and more (but the A100) take 1,024 sequences, and 8,192 tokens behind a server, 16,384
/// in `LLM`; others 256 and 2,048, or 8,192; an engine that says nothing of its use 2,048 tokens and, since 0.10,
/// 128 sequences. The first engine, and releases before 0.8.3: 256, and the context's length, or 2,048 beyond
/// 32,768. SGLang: 2,048 sequences, and tokens by the card's memory. A card of no known memory counts as one of
/// 80 GiB.
Limits default_limits(const Engine& engine, const Hardware& card, EntryPoint entry,
                      const Installation& installation = {});

}  // namespace headroom::engines
