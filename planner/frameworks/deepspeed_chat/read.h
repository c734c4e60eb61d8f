#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::deepspeed_chat {

/// DeepSpeed-Chat's third step (`--framework deepspeed-chat`): PPO with four DeepSpeed engines on every GPU,
/// without the hybrid engine. A job is a map of the keys below, alone or as the `case` of a recording (of
/// which then only `case`, `device`, `total_memory` and `alloc_conf` are read).
///
/// actor, critic: config.json values (reference and reward have the same). dtype: fp16 | bf16. zero_stage:
/// 0 to 3, of actor and critic; reference and reward hold whole weights, at stage 3 they are spread too.
/// offload: the optimizer on the host, at stage 3 the trained engines' weights too.
/// fp16_extra: {initial_scale_power: n}. batch (of a GPU), prompt, response, steps: numbers. grad_ckpt: flag.
/// empty_cache: none | inference | all. world: GPUs (2). Errors: name the key.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

}  // namespace headroom::deepspeed_chat
