#include "validator/profile/fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

#include "validator/profile/host_times.h"

namespace headroom::gpu {
namespace {

using Select = std::function<bool(const RatePoint&)>;
using Size = std::function<double(const RatePoint&)>;

std::vector<Timing> timings(const Measurements& m, const Select& select, const Size& size) {
  std::vector<Timing> out;
  for (const RatePoint& point : m.rates)
    if (select(point)) out.push_back({size(point), point.seconds});
  return out;
}

double bytes_of_point(const RatePoint& point) {
  return point.bytes;
}

/// Fits one curve against `peak` and replaces it; returns the line, or nothing with a note.
std::optional<LinearTime> fit_curve(const char* what, const std::vector<Timing>& points, double peak,
                                    EfficiencyCurve& curve, std::vector<std::string>& notes) {
  const auto line = fit_linear_time(points);
  if (!line) {
    notes.push_back(fmt::format("{}: not measured, taken over ({})", what, line.error().message));
    return std::nullopt;
  }
  const auto [least, most] = std::minmax_element(
      points.begin(), points.end(), [](const Timing& a, const Timing& b) { return a.size < b.size; });
  curve = curve_of(*line, std::max(peak, line->rate), least->size / peak, most->size / peak);
  return *line;
}

/// Work that arithmetic limits, not memory: the rest says nothing about matrix units.
bool by_arithmetic(const RatePoint& p, const Hardware& h) {
  return p.kind == "matrix" && p.dtype == DType::bf16 && h.matrix.bf16 > 0 &&
         p.flops / h.matrix.bf16 > p.bytes / h.memory_bandwidth;
}

/// What a rank passes over its slowest edge in a ring; 0 for what is no ring collective.
double edge_bytes(const RatePoint& p, int ranks) {
  const double part = p.bytes * (ranks - 1) / ranks;
  if (p.kind == "all_reduce") return 2 * part;
  return p.kind == "all_gather" || p.kind == "reduce_scatter" ? part : 0;
}

void fit_rates(const Measurements& m, Hardware& out, std::vector<std::string>& notes) {
  const auto kind = [](const char* wanted) {
    return [wanted](const RatePoint& p) { return p.kind == wanted; };
  };
  fit_curve("memory", timings(m, kind("copy"), bytes_of_point), out.memory_bandwidth, out.memory_efficiency,
            notes);
  fit_curve("matrix products",
            timings(
                m, [&](const RatePoint& p) { return by_arithmetic(p, out); },
                [](const RatePoint& p) { return p.flops; }),
            out.matrix.bf16, out.matrix_efficiency, notes);
  const auto transfers = [](const RatePoint& p) {
    return p.kind == "host to device" || p.kind == "device to host";
  };
  if (const auto line = fit_curve("host transfers", timings(m, transfers, bytes_of_point), out.links.pcie,
                                  out.host_efficiency, notes))
    out.latencies.host_transfer = std::max(line->latency, 1e-7);
  const double edge = out.links.nvlink > 0 ? out.links.nvlink : out.links.pcie;
  const auto ring = [&](const RatePoint& p) { return edge_bytes(p, m.gpus) > 0; };
  fit_curve("collectives", timings(m, ring, [&](const RatePoint& p) { return edge_bytes(p, m.gpus); }), edge,
            out.collective_efficiency, notes);
}

/// What an action added; nothing where it was not measured.
std::optional<Bytes> added(const Measurements& m, std::string_view action) {
  for (const MemoryPoint& point : m.memory)
    if (point.action == action) return std::max<Bytes>(point.added, 0);
  return std::nullopt;
}

void fit_process(const Measurements& m, Hardware& out, std::vector<std::string>& notes) {
  if (const auto context = added(m, "context"); context && *context > 0)
    out.context = *context;
  else
    notes.push_back("context: not measured, taken over");
  if (const auto handle = added(m, "cublas handle"); handle && *handle > 0)
    out.cublas_handle = *handle;
  else
    notes.push_back("cuBLAS handle: not measured, taken over");
}

/// Communicators of several ranks: what a further one takes when it is made and when it is first used; what
/// the first one took beyond that is the library's.
void fit_communicators(const Measurements& m, Hardware& out, std::vector<std::string>& notes) {
  NcclMemory& n = out.nccl;
  const auto first = added(m, "nccl communicator"), used = added(m, "first all_reduce");
  const auto further = added(m, "communicator 2"), connected = added(m, "communicator 2 connected");
  if (!first || !used || !further || !connected) {
    notes.push_back("NCCL: not measured, taken over");
    return;
  }
  // Whole pages a channel; the rest, at least a page, is the communicator's own.
  const std::int64_t opened = m.gpus == 1 ? n.lone_channels : std::max(n.ring_channels, n.p2p_channels);
  n.channel = std::max((*further - out.page) / opened / out.page * out.page, out.page);
  n.communicator = std::max(*further - opened * n.channel, out.page);
  if (m.gpus == 1) {
    notes.push_back("NCCL: measured with one rank; rings and sends taken over");
    return;
  }
  const Bytes ring = *connected / n.ring_channels;
  n.ring_send = std::min(n.ring_send, ring);
  n.ring_receive = ring - n.ring_send;
  n.library = std::max<Bytes>(*first - *further, 0);
  n.first_collective = std::max<Bytes>(*used - *connected, 0);
  if (const auto sent = added(m, "first send or receive"))
    n.first_p2p = std::max<Bytes>(*sent - n.p2p_channels * n.p2p_send, 0);
}

/// Device memory a kernel of captured graphs: through the origin, since a graph without kernels takes
/// nothing.
Bytes graph_kernel(const Measurements& m) {
  double product = 0, square = 0;
  for (const MemoryPoint& point : m.memory) {
    int kernels = 0;
    if (std::sscanf(point.action.c_str(), "graph of %d kernels", &kernels) != 1) continue;
    product += static_cast<double>(kernels) * static_cast<double>(std::max<Bytes>(point.added, 0));
    square += static_cast<double>(kernels) * kernels;
  }
  return square > 0 ? static_cast<Bytes>(std::llround(product / square)) : 0;
}

void state_sources(const Measurements& m, Hardware& out) {
  std::string how = fmt::format("measured on {} {}", m.gpus, m.gpu);
  for (const auto& [what, version] : m.versions) how += fmt::format(", {} {}", what, version);
  out.sources["memory"] = how;
  out.sources["process"] = how + "; kernels of PyTorch and its cuBLAS workspace: " + out.sources["process"];
  if (m.versions.contains("nccl")) out.sources["nccl"] = how + "; channels: " + out.sources["nccl"];
  out.sources["efficiency"] = how + (m.gpus > 1 ? "" : "; collectives: " + out.sources["efficiency"]) +
                              "; lines of latency and rate by least squares of relative errors";
}

}  // namespace

Result<LinearTime> fit_linear_time(std::span<const Timing> timings) {
  const auto n = static_cast<Eigen::Index>(timings.size());
  if (n < 2) return fail(fmt::format("expected at least two sizes, found {}", n));
  // Each row divided by its seconds: relative errors count alike at all sizes.
  Eigen::MatrixX2d rows(n, 2);
  double largest = 0;
  for (const Timing& timing : timings) largest = std::max(largest, timing.size);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Timing& timing = timings[static_cast<std::size_t>(i)];
    rows(i, 0) = 1 / timing.seconds;
    rows(i, 1) = timing.size / largest / timing.seconds;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(n);
  Eigen::Vector2d x = rows.colPivHouseholderQr().solve(ones);
  if (x[0] < 0) {  // no latency below zero: the line through the origin
    x[0] = 0;
    x[1] = rows.col(1).sum() / rows.col(1).squaredNorm();
  }
  if (!(x[1] > 0)) return fail("times do not rise with size: expected more different sizes");
  return LinearTime{.latency = x[0], .rate = largest / x[1]};
}

EfficiencyCurve curve_of(const LinearTime& line, double peak, double shortest, double longest) {
  constexpr int kPoints = 6;
  std::vector<EfficiencyCurve::Point> points;
  const double ratio = std::pow(longest / shortest, 1.0 / (kPoints - 1));
  for (int i = 0; i < kPoints; ++i) {
    const double ideal = shortest * std::pow(ratio, i);
    const double fraction = std::min(1.0, ideal / (line.latency + ideal * peak / line.rate));
    if (!points.empty() && ideal <= points.back().seconds * 1.0001) break;
    points.push_back({ideal, fraction});
  }
  return EfficiencyCurve(std::move(points));
}

Result<Hardware> fit_profile(const Measurements& m, const Hardware& base, std::vector<std::string>& notes) {
  if (m.gpu.empty() || m.total_memory <= 0)
    return fail("expected a measured card with its name and memory; run `headroom calibrate --json FILE`");
  Hardware out = base;
  out.name = m.gpu;
  out.versions = m.versions;
  out.total_memory = m.total_memory;
  if (m.granularity > 0) out.page = m.granularity;
  if (m.multiprocessors > 0) out.multiprocessors = m.multiprocessors;
  out.graph_kernel = graph_kernel(m);
  fit_process(m, out, notes);
  fit_communicators(m, out, notes);
  fit_rates(m, out, notes);
  state_sources(m, out);
  fit_host_times(m, out, notes);
  return out;
}

}  // namespace headroom::gpu
