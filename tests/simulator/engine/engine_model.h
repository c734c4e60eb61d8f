#pragma once

#include <memory>
#include <string>

#include "models/architecture/read.h"
#include "models/presets/presets.h"
#include "simulator/engine/account.h"
#include "simulator/hardware/library.h"

namespace headroom::engine::test {

inline double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

/// vLLM 0.19 behind a server on H100: 1,024 sequences, 8,192 tokens.
inline Engine engine_of(const std::string& name, std::int64_t tensor = 1) {
  Engine engine;
  engine.kind = EngineKind::vllm;
  engine.model = std::make_shared<Architecture>(make_architecture(find_preset(name).value(), name).value());
  engine.tensor = tensor;
  engine.max_sequences = 1024;
  engine.max_batched_tokens = 8192;
  engine.graphs_in_budget = false;
  engine.allreduce_beside_groups = false;
  return engine;
}

inline Host h100() {
  return host_of(find_hardware("h100").value());
}

}  // namespace headroom::engine::test
