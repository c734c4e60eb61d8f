#pragma once

#include <string>
#include <string_view>

#include "models/presets/presets.h"

namespace headroom {

/// A preset that a name mentions, and by which of its words.
struct Mention {
  const Preset* preset = nullptr;  ///< null: none, or several whose sizes differ
  std::string name;                ///< the preset's name that is mentioned, `Qwen/Qwen2.5-3B`
};

/// The known model in the name of something trained from it: `qwen2.5-3b-1epoch-hard` is as large as Qwen2.5-3B,
/// `multiturn-sft-qwen-2.5-7b-instruct/global_step_372` as Qwen2.5-7B-Instruct. The model's family and size must both
/// stand there as words; separators count only between digits. Folders that only say which checkpoint it is
/// (`global_step_372`, `actor`, `huggingface`) are passed over.
///
/// Nothing is found where the name says that the shape or the storage is another one (a second size, `awq`, `pruned`,
/// `moe`, `vl` …), or where it fits models of different sizes.
Mention mentioned_preset(std::string_view name);

}  // namespace headroom
