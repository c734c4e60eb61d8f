#include "simulator/time/rates.h"

#include <gtest/gtest.h>

#include <map>

#include "simulator/hardware/library.h"

namespace headroom {
namespace {

const Hardware& card(const char* name) {
  static std::map<std::string, Hardware> cards;
  const auto at = cards.find(name);
  return at != cards.end() ? at->second : cards.emplace(name, *find_hardware(name)).first->second;
}

/// Within `factor` of a measurement.
void expect_close(double predicted, double measured, double factor, const char* what) {
  EXPECT_LT(predicted, measured * factor) << what;
  EXPECT_GT(predicted, measured / factor) << what;
}

// Measured on two H100 80GB HBM3, PyTorch 2.11 eager, mean of ten after three warm-ups.
TEST(MatrixProductSeconds, FollowMeasurements) {
  struct Row {
    std::int64_t m, n, k;
    double seconds;
  };
  for (const Row& row : {Row{2048, 2048, 2048, 27.8e-6},
                         {4096, 4096, 4096, 180.6e-6},
                         {8192, 8192, 8192, 1411e-6},
                         {1024, 4096, 4096, 47.7e-6},
                         {16384, 4096, 4096, 711.5e-6},
                         {8192, 152064, 3584, 12419e-6}})
    expect_close(matrix_product_seconds(card("h100"), row.m, row.n, row.k, DType::bf16), row.seconds, 1.15,
                 "bf16");
  for (const Row& row :
       {Row{2048, 2048, 2048, 345e-6}, {4096, 4096, 4096, 2648e-6}, {16384, 4096, 4096, 10780e-6}})
    expect_close(matrix_product_seconds(card("h100"), row.m, row.n, row.k, DType::fp32), row.seconds, 1.15,
                 "fp32");
  for (const Row& row :
       {Row{4096, 4096, 4096, 354e-6}, {8192, 8192, 8192, 2721e-6}, {1024, 4096, 4096, 124e-6}})
    expect_close(matrix_product_seconds(card("h100"), row.m, row.n, row.k, DType::fp32, true), row.seconds,
                 1.4, "tf32");
}

TEST(MemorySeconds, FollowMeasurements) {
  for (const auto& [bytes, seconds] :
       {std::pair<Bytes, double>{1 << 24, 13.2e-6}, {1 << 26, 48.6e-6}, {1 << 30, 715e-6}})
    expect_close(memory_seconds(card("h100"), 2 * bytes), seconds, 1.15, "copy");
}

TEST(HostTransferSeconds, FollowMeasurements) {
  for (const auto& [bytes, seconds] : {std::pair<Bytes, double>{1 << 18, 8.1e-6},
                                       {1 << 20, 22.4e-6},
                                       {1 << 26, 1227e-6},
                                       {1 << 30, 20066e-6}})
    expect_close(host_transfer_seconds(card("h100"), bytes), seconds, 1.15, "to the GPU");
}

TEST(CollectiveSeconds, FollowMeasurements) {
  using C = Collective;
  struct Row {
    C collective;
    Bytes bytes;
    double seconds;
  };
  // The smallest one on two H200, one after the other on the stream, without dispatch.
  for (const Row& row : {Row{C::all_reduce, 1 << 20, 14.2e-6},
                         {C::all_reduce, 1 << 26, 262e-6},
                         {C::all_reduce, 1 << 30, 3336e-6},
                         {C::all_gather, 1 << 26, 163e-6},
                         {C::all_gather, 1 << 30, 2047e-6},
                         {C::reduce_scatter, 1 << 26, 184e-6},
                         {C::reduce_scatter, 1 << 30, 2230e-6},
                         {C::all_to_all, 1 << 28, 519e-6},
                         {C::broadcast, 1 << 28, 749e-6}})
    expect_close(collective_seconds(card("h100"), row.collective, row.bytes, {.ranks = 2}), row.seconds, 1.35,
                 "two ranks");
}

TEST(Seconds, RiseWithSizeOnEveryCard) {
  for (const Hardware& hardware : hardware_profiles()) {
    double product = 0, memory = 0, host = 0, gather = 0, spread = 0;
    for (std::int64_t size = 1; size <= (std::int64_t{1} << 34); size = size * 3 / 2 + 1) {
      const auto rises = [&](double& last, double now) {
        EXPECT_GE(now, last) << hardware.name << " " << size;
        last = now;
      };
      rises(product, matrix_product_seconds(hardware, size, 4096, 4096, DType::bf16));
      rises(memory, memory_seconds(hardware, size));
      rises(host, host_transfer_seconds(hardware, size));
      rises(gather, collective_seconds(hardware, Collective::all_gather, size, {.ranks = 8}));
      rises(spread, collective_seconds(hardware, Collective::all_to_all, size, {.ranks = 16, .nodes = 2}));
    }
  }
}

TEST(Seconds, NeverBeatThePeak) {
  for (const Hardware& hardware : hardware_profiles()) {
    const double flops = 2.0 * 8192 * 8192 * 8192;
    EXPECT_GE(matrix_product_seconds(hardware, 8192, 8192, 8192, DType::bf16),
              flops / hardware.matrix.of(DType::bf16));
    EXPECT_GE(memory_seconds(hardware, kGiB), static_cast<double>(kGiB) / hardware.memory_bandwidth);
    EXPECT_GE(host_transfer_seconds(hardware, kGiB), static_cast<double>(kGiB) / hardware.links.pcie);
    EXPECT_GE(memory_seconds(hardware, 1), hardware.latencies.kernel);
  }
}

TEST(MatrixProductSeconds, OfFewRowsIsBoundByReadingTheWeights) {
  const Hardware& h100 = card("h100");
  const double one = matrix_product_seconds(h100, 1, 16384, 16384, DType::bf16);
  EXPECT_GE(one, 2.0 * 16384 * 16384 / h100.memory_bandwidth);
  EXPECT_NEAR(one, matrix_product_seconds(h100, 16, 16384, 16384, DType::bf16), one * 0.01);
  EXPECT_NEAR(matrix_product_seconds(h100, 1, 16384, 16384, DType::fp8), one / 2, one * 0.05);
}

TEST(BatchedProductSeconds, OfOneIsTheProduct) {
  EXPECT_EQ(batched_product_seconds(card("h100"), 1, 512, 512, 64, DType::bf16),
            matrix_product_seconds(card("h100"), 512, 512, 64, DType::bf16));
  EXPECT_GT(batched_product_seconds(card("h100"), 64, 4096, 4096, 128, DType::bf16),
            batched_product_seconds(card("h100"), 32, 4096, 4096, 128, DType::bf16) * 1.5);
}

TEST(CollectiveSeconds, AllReduceIsReduceScatterAndAllGather) {
  const Hardware& h100 = card("h100");
  const RankGroup group{.ranks = 8};
  const double both = collective_seconds(h100, Collective::reduce_scatter, kGiB, group) +
                      collective_seconds(h100, Collective::all_gather, kGiB, group);
  EXPECT_NEAR(collective_seconds(h100, Collective::all_reduce, kGiB, group), both, both * 0.1);
}

TEST(CollectiveSeconds, CostMoreAcrossNodes) {
  const Hardware& h100 = card("h100");
  for (const Collective collective :
       {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::all_to_all,
        Collective::broadcast, Collective::send}) {
    const double inside = collective_seconds(h100, collective, kGiB, {.ranks = 8});
    const double one_each = collective_seconds(h100, collective, kGiB, {.ranks = 8, .nodes = 8});
    EXPECT_GT(one_each, inside * 2);
  }
  // Eight ranks a node share eight adapters: a ring keeps most of its rate.
  EXPECT_LT(collective_seconds(h100, Collective::all_gather, kGiB, {.ranks = 16, .nodes = 2}),
            collective_seconds(h100, Collective::all_gather, kGiB, {.ranks = 16, .nodes = 16}) / 4);
}

TEST(CollectiveSeconds, ApproachTheWholeMessageAsRanksGrow) {
  const Hardware& h100 = card("h100");
  const double two = collective_seconds(h100, Collective::all_gather, 8 * kGiB, {.ranks = 2});
  const double eight = collective_seconds(h100, Collective::all_gather, 8 * kGiB, {.ranks = 8});
  EXPECT_NEAR(eight / two, (7.0 / 8) / (1.0 / 2), 0.1);
}

TEST(CollectiveSeconds, OfOneRankSendNothing) {
  EXPECT_EQ(collective_seconds(card("h100"), Collective::all_reduce, kGiB, {.ranks = 1}),
            card("h100").latencies.kernel);
}

TEST(CollectiveSeconds, WithoutNvlinkTakePcie) {
  EXPECT_GE(collective_seconds(card("l4"), Collective::all_gather, kGiB, {.ranks = 2}),
            static_cast<double>(kGiB) / 2 / card("l4").links.pcie);
}

}  // namespace
}  // namespace headroom
