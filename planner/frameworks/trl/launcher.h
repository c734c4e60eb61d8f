#pragma once

#include <string>
#include <string_view>

#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom::trl {

/// Accelerate's configuration, nested or flat, as keys below `accelerate.` named after its flags; everything
/// else of the map stays where it is. A trainer's YAML may hold such keys too: the `trl` command hands what
/// it does not know to Accelerate.
Document with_accelerate_keys(const Document& document);
/// Whether a file is Accelerate's own.
bool is_accelerate_file(const Document& document);
/// Whether a file is a DeepSpeed configuration.
bool is_deepspeed_file(const Document& document);

/// The key of a program's or launcher's flag: Accelerate's below `accelerate.`.
std::string key_of_flag(const std::string& name);
/// A flag's or a flat file's name for a key: without `accelerate.`.
std::string_view flag_of_key(std::string_view key);

/// One of the configurations that TRL ships for `--accelerate_config`: single_gpu, multi_gpu, zero1, zero2,
/// zero3, fsdp1, fsdp2; nothing for another name.
std::string_view shipped_configuration(std::string_view name);

/// JSON texts in places where TRL wants maps become maps. Errors: broken JSON.
Result<Document> with_maps(Document document, const std::string& file);

}  // namespace headroom::trl
