#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom models [NAME|DIR|config.json]`.
Command models_command();

/// Without a name: the families and public models that are known. With one: the model's weights as they are
/// on disk and for training (adapters, frozen parts, another head), tensor by tensor with `*` for layer
/// indices, and what its KV cache takes a token. `--json FILE`: `headroom.models/1`. When the model's
/// directory holds safetensors, a difference between them and the config is a warning.
int models(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
