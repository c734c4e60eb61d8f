#include "simulator/time/rates.h"

#include <algorithm>

namespace headroom {
namespace {

/// Of what a rank exchanges with `group`, the seconds at the peak rate of the slowest edge.
double ring_edge_rate(const Hardware& hardware, RankGroup group) {
  const double inside = hardware.links.nvlink > 0 ? hardware.links.nvlink : hardware.links.pcie;
  if (group.nodes <= 1) return inside;
  const auto ranks_a_node = static_cast<double>(group.ranks) / static_cast<double>(group.nodes);
  const double between = hardware.links.network * ranks_a_node;
  return group.ranks == group.nodes ? between : std::min(inside, between);
}

/// Seconds that `steps` steps of a ring wait for each other; a step takes the slowest hop.
double hops(const Hardware& hardware, RankGroup group, double steps) {
  return steps * (group.nodes > 1 ? hardware.latencies.network_hop : hardware.latencies.node_hop);
}

double all_to_all_ideal(const Hardware& hardware, double bytes, RankGroup group) {
  const auto ranks = static_cast<double>(group.ranks);
  const double ranks_a_node = ranks / static_cast<double>(group.nodes);
  const double inside = hardware.links.nvlink > 0 ? hardware.links.nvlink : hardware.links.pcie;
  return std::max(bytes * (ranks_a_node - 1) / ranks / inside,
                  bytes * (ranks - ranks_a_node) / ranks / hardware.links.network);
}

}  // namespace

double batched_product_seconds(const Hardware& hardware, std::int64_t count, std::int64_t m, std::int64_t n,
                               std::int64_t k, DType dtype, bool tf32) {
  const auto batch = static_cast<double>(count);
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n), inner = static_cast<double>(k);
  const double operand = dtype == DType::nf4 ? 0.5 : element_size(dtype);
  const double flops = 2 * batch * rows * columns * inner;
  const double moved = batch * (operand * inner * (rows + columns) + std::max(operand, 2.0) * rows * columns);
  const double rate = tf32 && dtype == DType::fp32 && hardware.matrix.tf32 > 0 ? hardware.matrix.tf32
                                                                               : hardware.matrix.of(dtype);
  return hardware.latencies.kernel +
         std::max(hardware.matrix_efficiency.seconds(flops / rate),
                  hardware.memory_efficiency.seconds(moved / hardware.memory_bandwidth));
}

double matrix_product_seconds(const Hardware& hardware, std::int64_t m, std::int64_t n, std::int64_t k,
                              DType dtype, bool tf32) {
  return batched_product_seconds(hardware, 1, m, n, k, dtype, tf32);
}

double memory_seconds(const Hardware& hardware, Bytes moved) {
  return hardware.latencies.kernel +
         hardware.memory_efficiency.seconds(static_cast<double>(moved) / hardware.memory_bandwidth);
}

double host_transfer_seconds(const Hardware& hardware, Bytes bytes) {
  return std::max(hardware.latencies.host_transfer,
                  hardware.host_efficiency.seconds(static_cast<double>(bytes) / hardware.links.pcie));
}

double collective_seconds(const Hardware& hardware, Collective collective, Bytes bytes, RankGroup group) {
  if (group.ranks <= 1) return hardware.latencies.kernel;
  const auto message = static_cast<double>(bytes);
  const auto ranks = static_cast<double>(group.ranks);
  const double part = message * (ranks - 1) / ranks;
  const double edge = ring_edge_rate(hardware, group);
  double ideal = 0, steps = ranks - 1;
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      ideal = part / edge;
      break;
    case Collective::all_reduce:
      ideal = 2 * part / edge;
      steps *= 2;
      break;
    case Collective::broadcast:
      ideal = message / edge;
      break;
    case Collective::all_to_all:
      ideal = all_to_all_ideal(hardware, message, group);
      steps = 1;
      break;
    case Collective::send:
      ideal = message / (group.nodes > 1 ? hardware.links.network : edge);
      steps = 1;
      break;
  }
  return hardware.latencies.kernel + hops(hardware, group, steps) +
         hardware.collective_efficiency.seconds(ideal);
}

}  // namespace headroom
