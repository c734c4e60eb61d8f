#pragma once

#include "simulator/engine/account.h"

namespace headroom::engine {

/// SGLang's start-up: of the memory that is free before the model is loaded, the part `utilization` holds
/// weights and KV cache; activations, graphs (captured after the KV cache exists) and all else live in the
/// rest. So a trainer that holds more leaves a smaller KV cache, not a failure to start.
///
/// `sleep_level` 1 stands for weights kept on the host while asleep. Tokens are managed in pages of
/// `block_size`.
Account sglang_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work);

}  // namespace headroom::engine
