#pragma once

#include "simulator/job/role.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// PEFT's get_peft_model: the model's weights are frozen, adapters A [rank, in] and B [out, rank] appear in
/// module order beside every target linear (never the head) in the base's dtype, then each is replaced by a
/// copy in the adapters' own dtype. They join the model's parameters behind their base weight.
void add_lora(Model& model, const LoraSpec& spec);

}  // namespace headroom::tape
