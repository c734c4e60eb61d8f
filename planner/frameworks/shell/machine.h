#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/shell/truth.h"
#include "planner/frameworks/shell/word.h"

namespace headroom::shell {

/// What scripts ask of the machine before they choose a backend. Every prediction is of NVIDIA cards, so their
/// tools are there and those of other makers' are not. Of everything else nothing is known.

/// Whether a program is installed: `nvidia-smi` is, `npu-smi` and `rocm-smi` are not.
Truth has_program(std::string_view name);

/// How a command ends that only asks what there is, and prints nothing: `python3 -c 'import torch_npu'`, and
/// `nvidia-smi` or `npu-smi info` with their output thrown away. Nothing for any other command.
std::optional<Truth> asks_machine(const std::vector<Word>& words);

/// What a command prints that counts or lists the GPUs of a machine with `gpus` of them: `nvidia-smi -L`,
/// `python3 -c 'import torch; print(torch.cuda.device_count())'`. Nothing for any other command.
std::optional<std::string> listed_gpus(const std::vector<Word>& words, std::int64_t gpus);

}  // namespace headroom::shell
