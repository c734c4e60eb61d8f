#include "simulator/hardware/fields.h"

#include <array>

namespace headroom {
namespace {

using Kind = HardwareField::Kind;

// Captureless lambdas name the member; Bytes and counts share std::int64_t.
#define HEADROOM_BYTES(member) +[](Hardware& h) -> Bytes* { return &h.member; }
#define HEADROOM_REAL(member) +[](Hardware& h) -> double* { return &h.member; }
#define HEADROOM_CURVE(member) +[](Hardware& h) -> EfficiencyCurve* { return &h.member; }

const std::array kFields = {
    HardwareField{"memory", "total", Kind::bytes, HEADROOM_BYTES(total_memory)},
    HardwareField{"memory", "page", Kind::bytes, HEADROOM_BYTES(page)},
    HardwareField{"rates", "multiprocessors", Kind::count, HEADROOM_BYTES(multiprocessors)},
    HardwareField{"rates", "capability", Kind::count, HEADROOM_BYTES(capability), true, true},
    HardwareField{"rates", "bf16", Kind::rate, HEADROOM_REAL(matrix.bf16), true},
    HardwareField{"rates", "fp16", Kind::rate, HEADROOM_REAL(matrix.fp16), true},
    HardwareField{"rates", "tf32", Kind::rate, HEADROOM_REAL(matrix.tf32), true},
    HardwareField{"rates", "fp32", Kind::rate, HEADROOM_REAL(matrix.fp32)},
    HardwareField{"rates", "fp8", Kind::rate, HEADROOM_REAL(matrix.fp8), true},
    HardwareField{"rates", "int8", Kind::rate, HEADROOM_REAL(matrix.int8), true},
    HardwareField{"rates", "sustained", Kind::share, HEADROOM_REAL(matrix.sustained), false, true},
    HardwareField{"rates", "memory", Kind::rate, HEADROOM_REAL(memory_bandwidth)},
    HardwareField{"links", "pcie", Kind::rate, HEADROOM_REAL(links.pcie)},
    HardwareField{"links", "nvlink", Kind::rate, HEADROOM_REAL(links.nvlink), true},
    HardwareField{"links", "network", Kind::rate, HEADROOM_REAL(links.network)},
    HardwareField{"links", "multicast", Kind::bytes, HEADROOM_BYTES(links.multicast), true, true},
    HardwareField{"host", "memory", Kind::bytes, HEADROOM_BYTES(host_memory), false, true},
    HardwareField{"process", "context", Kind::bytes, HEADROOM_BYTES(context)},
    HardwareField{"process", "first_kernels", Kind::bytes, HEADROOM_BYTES(kernels.first), true, true},
    HardwareField{"process", "forward_kernels", Kind::bytes, HEADROOM_BYTES(kernels.forward), true, true},
    HardwareField{"process", "generate_kernels", Kind::bytes, HEADROOM_BYTES(kernels.generate), true, true},
    HardwareField{"process", "train_kernels", Kind::bytes, HEADROOM_BYTES(kernels.train), true, true},
    HardwareField{"process", "cublas_handle", Kind::bytes, HEADROOM_BYTES(cublas_handle)},
    HardwareField{"process", "cublas_workspace", Kind::bytes, HEADROOM_BYTES(cublas_workspace)},
    HardwareField{"process", "graph_kernel", Kind::bytes, HEADROOM_BYTES(graph_kernel), true, true},
    HardwareField{"nccl", "library", Kind::bytes, HEADROOM_BYTES(nccl.library)},
    HardwareField{"nccl", "first_collective", Kind::bytes, HEADROOM_BYTES(nccl.first_collective)},
    HardwareField{"nccl", "first_p2p", Kind::bytes, HEADROOM_BYTES(nccl.first_p2p)},
    HardwareField{"nccl", "communicator", Kind::bytes, HEADROOM_BYTES(nccl.communicator)},
    HardwareField{"nccl", "channel", Kind::bytes, HEADROOM_BYTES(nccl.channel)},
    HardwareField{"nccl", "ring_send", Kind::bytes, HEADROOM_BYTES(nccl.ring_send)},
    HardwareField{"nccl", "ring_receive", Kind::bytes, HEADROOM_BYTES(nccl.ring_receive)},
    HardwareField{"nccl", "p2p_send", Kind::bytes, HEADROOM_BYTES(nccl.p2p_send)},
    HardwareField{"nccl", "p2p_receive", Kind::bytes, HEADROOM_BYTES(nccl.p2p_receive)},
    HardwareField{"nccl", "ring_channels", Kind::count, HEADROOM_BYTES(nccl.ring_channels)},
    HardwareField{"nccl", "p2p_channels", Kind::count, HEADROOM_BYTES(nccl.p2p_channels)},
    HardwareField{"nccl", "lone_channels", Kind::count, HEADROOM_BYTES(nccl.lone_channels)},
    HardwareField{"efficiency", "matrix", Kind::curve, HEADROOM_CURVE(matrix_efficiency)},
    HardwareField{"efficiency", "memory", Kind::curve, HEADROOM_CURVE(memory_efficiency)},
    HardwareField{"efficiency", "host", Kind::curve, HEADROOM_CURVE(host_efficiency)},
    HardwareField{"efficiency", "collective", Kind::curve, HEADROOM_CURVE(collective_efficiency)},
    HardwareField{"latency", "operation", Kind::seconds, HEADROOM_REAL(latencies.operation)},
    HardwareField{"latency", "host_transfer", Kind::seconds, HEADROOM_REAL(latencies.host_transfer)},
    HardwareField{"latency", "collective", Kind::seconds, HEADROOM_REAL(latencies.collective)},
    HardwareField{"latency", "node_hop", Kind::seconds, HEADROOM_REAL(latencies.node_hop)},
    HardwareField{"latency", "network_hop", Kind::seconds, HEADROOM_REAL(latencies.network_hop)},
    HardwareField{"latency", "kernel", Kind::seconds, HEADROOM_REAL(latencies.kernel), false, true},
    HardwareField{"host_times", "allocation", Kind::seconds, HEADROOM_REAL(host_times.allocation), true,
                  true},
    HardwareField{"host_times", "launch", Kind::seconds, HEADROOM_REAL(host_times.launch), true, true},
    HardwareField{"host_times", "product", Kind::seconds, HEADROOM_REAL(host_times.product), true, true},
    HardwareField{"host_times", "gradient", Kind::seconds, HEADROOM_REAL(host_times.gradient), true, true},
    HardwareField{"host_times", "product_gradient", Kind::seconds, HEADROOM_REAL(host_times.product_gradient),
                  true, true},
    HardwareField{"host_times", "model_call", Kind::seconds, HEADROOM_REAL(host_times.model_call), true,
                  true},
    HardwareField{"host_times", "token", Kind::seconds, HEADROOM_REAL(host_times.token), true, true},
    HardwareField{"host_times", "history", Kind::seconds, HEADROOM_REAL(host_times.history), true, true},
    HardwareField{"host_times", "checkpoint", Kind::seconds, HEADROOM_REAL(host_times.checkpoint), true, true},
    HardwareField{"host_times", "module_visit", Kind::seconds, HEADROOM_REAL(host_times.module_visit), true, true},
    HardwareField{"host_times", "recompute", Kind::seconds, HEADROOM_REAL(host_times.recompute), true, true},
    HardwareField{"host_times", "norm_parameter", Kind::seconds, HEADROOM_REAL(host_times.norm_parameter),
                  true, true},
    HardwareField{"host_times", "foreach_parameter", Kind::seconds,
                  HEADROOM_REAL(host_times.foreach_parameter), true, true},
    HardwareField{"host_times", "fused_parameter", Kind::seconds, HEADROOM_REAL(host_times.fused_parameter),
                  true, true},
    HardwareField{"host_times", "loop_parameter", Kind::seconds, HEADROOM_REAL(host_times.loop_parameter),
                  true, true},
    HardwareField{"host_times", "megatron_linear", Kind::seconds, HEADROOM_REAL(host_times.megatron_linear), true, true},
    HardwareField{"host_times", "megatron_linear_gradient", Kind::seconds,
                  HEADROOM_REAL(host_times.megatron_linear_gradient), true, true},
    HardwareField{"host_times", "expert_exchange", Kind::seconds, HEADROOM_REAL(host_times.expert_exchange), true, true},
    HardwareField{"host_times", "unshard", Kind::seconds, HEADROOM_REAL(host_times.unshard), true, true},
    HardwareField{"host_times", "reduce", Kind::seconds, HEADROOM_REAL(host_times.reduce), true, true},
    HardwareField{"host_times", "engine_step", Kind::seconds, HEADROOM_REAL(host_times.engine_step), true,
                  true},
    HardwareField{"host_times", "engine_sequence", Kind::seconds, HEADROOM_REAL(host_times.engine_sequence),
                  true, true},
    HardwareField{"host_times", "segment", Kind::seconds, HEADROOM_REAL(host_times.segment), true, true},
    HardwareField{"host_times", "segment_return", Kind::seconds, HEADROOM_REAL(host_times.segment_return), true, true},
    HardwareField{"host_rates", "from_pageable", Kind::rate, HEADROOM_REAL(host_rates.from_pageable), true,
                  true},
    HardwareField{"host_rates", "to_pageable", Kind::rate, HEADROOM_REAL(host_rates.to_pageable), true, true},
    HardwareField{"host_rates", "first_touch", Kind::rate, HEADROOM_REAL(host_rates.first_touch), true, true},
    HardwareField{"host_rates", "unmap", Kind::rate, HEADROOM_REAL(host_rates.unmap), true, true},
    HardwareField{"host_rates", "pin", Kind::rate, HEADROOM_REAL(host_rates.pin), true, true},
    HardwareField{"host_rates", "optimizer", Kind::rate, HEADROOM_REAL(host_rates.optimizer), true, true},
    HardwareField{"host_rates", "device_get", Kind::rate, HEADROOM_REAL(host_rates.device_get), true, true},
    HardwareField{"host_rates", "device_return", Kind::rate, HEADROOM_REAL(host_rates.device_return), true,
                  true},
    HardwareField{"host_rates", "device_map", Kind::rate, HEADROOM_REAL(host_rates.device_map), true, true},
};

#undef HEADROOM_BYTES
#undef HEADROOM_REAL
#undef HEADROOM_CURVE

}  // namespace

std::span<const HardwareField> hardware_fields() {
  return kFields;
}

// Members are named once, by functions that hand out writable ones; reading through them changes nothing.
std::int64_t whole_figure(const HardwareField& field, const Hardware& hardware) {
  return *std::get<0>(field.member)(const_cast<Hardware&>(hardware));
}

double real_figure(const HardwareField& field, const Hardware& hardware) {
  return *std::get<1>(field.member)(const_cast<Hardware&>(hardware));
}

const EfficiencyCurve& curve_figure(const HardwareField& field, const Hardware& hardware) {
  return *std::get<2>(field.member)(const_cast<Hardware&>(hardware));
}

}  // namespace headroom
