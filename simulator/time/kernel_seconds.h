#pragma once

#include <cstdint>
#include <string_view>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/operation.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// What of an operation's name bears on its kernels: gradients' kernels and the forms of an optimizer differ
/// from others of their kind.
enum class KernelForm : std::uint8_t { forward, backward, fused_step, foreach_step, loop_step };
KernelForm kernel_form(std::string_view operation);

/// Seconds that an operation's kernels run on a card whose rates are known; 0 for the host's own work.
/// Products by the matrix curve; attention by rates of its own that depend on head size and length; what is
/// bound by memory by the share of the memory curve that its kind of kernel reaches. Copies between host and
/// GPU at the link's rate, as from pinned memory. Groups of more than `gpus_per_node` ranks span nodes.
double kernel_seconds(const Operation& operation, KernelForm form, const Hardware& hardware,
                      std::int64_t gpus_per_node);

/// Seconds of an attention kernel on `sequences` × `heads` of `queries` × `keys`; `flops` as the kernel does
/// them (half, when causal).
double attention_seconds(const Hardware& hardware, DType dtype, double flops, Bytes bytes,
                         std::int64_t queries, std::int64_t keys, std::int64_t head_dim, bool backward);

/// To what an operation's kernels count.
Spent spent_on(OperationKind kind);

}  // namespace headroom
