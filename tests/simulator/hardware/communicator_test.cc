#include "simulator/hardware/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// Device memory that each step of a recording added, in order.
std::vector<std::pair<std::string, Bytes>> additions(const nlohmann::json& recording) {
  std::vector<std::pair<std::string, Bytes>> out;
  Bytes previous = 0;
  for (const auto& row : recording) {
    const std::string step = row[0].get<std::string>();
    if (step == "cublas_workspace_in_torch") continue;  // a size, not the memory in use
    const Bytes used = row[1].get<Bytes>();
    out.emplace_back(step, used - previous);
    previous = used;
  }
  return out;
}

nlohmann::json read(const char* name) {
  return nlohmann::json::parse(std::ifstream(test::data(name)));
}

/// NCCL's own small allocations move by a few pages from run to run.
void expect_within_pages(const std::string& step, Bytes recorded, Bytes predicted) {
  EXPECT_LE(std::abs(recorded - predicted), 4 * 2 * kMiB)
      << step << ": " << recorded << " against " << predicted;
}

/// The recorded processes launched their first kernel, the barrier's, when the group was made.
Bytes created(const NcclMemory& nccl) {
  return find_hardware("h100")->kernels.first + nccl.library + nccl.communicator + std::max(nccl.ring_channels, nccl.p2p_channels) * nccl.channel;
}

TEST(CommunicatorBytes, MatchARecordedProcess) {
  const NcclMemory nccl = find_hardware("h200")->nccl;
  int groups = 0;
  Bytes first = 0;
  for (const auto& [step, added] : additions(read("nccl/2gpu-h200.json"))) {
    if (step == "after_init_pg" || step == "after_first_allreduce") first += added;
    if (step.starts_with("after_group_")) {
      expect_within_pages(step, added, communicator_bytes(nccl, {2}));
      ++groups;
    }
    if (step == "after_p2p")
      expect_within_pages(step, added, nccl.first_p2p + point_to_point_bytes(nccl, {2}, 1, 0));
  }
  expect_within_pages("first", first,
                      find_hardware("h200")->kernels.first + first_communicator_bytes(nccl, 2) +
                          communicator_bytes(nccl, {2}));
  EXPECT_EQ(groups, 3);
}

/// The parts were told apart by limiting the channels: together they must explain all three runs.
TEST(CommunicatorBytes, FollowTheNumberOfChannels) {
  const nlohmann::json runs = read("nccl/2gpu-h100-channels.json");
  for (const std::int64_t channels : {2, 8, 24}) {
    NcclMemory nccl = find_hardware("h100")->nccl;
    if (channels < nccl.ring_channels) nccl.ring_channels = nccl.p2p_channels = nccl.lone_channels = channels;
    const std::map<std::string, Bytes> predicted = {
        {"after_init_pg", created(nccl)},
        {"after_group", communicator_bytes(nccl, {2})},
        {"after_group_of_one", communicator_bytes(nccl, {1})},
        {"after_send", nccl.first_p2p + point_to_point_bytes(nccl, {2}, 1, 0)},
        {"after_all_to_all", point_to_point_bytes(nccl, {2}, 0, 1)},
    };
    size_t compared = 0;
    for (const auto& [step, added] : additions(runs.at(std::to_string(channels)))) {
      const auto expected = predicted.find(step);
      if (expected == predicted.end()) continue;
      expect_within_pages(step + " at " + std::to_string(channels) + " channels", added, expected->second);
      ++compared;
    }
    EXPECT_EQ(compared, 6u);
  }
}

TEST(CommunicatorBytes, DoNotGrowWithTheRanksOfARing) {
  const NcclMemory nccl = find_hardware("h100")->nccl;
  EXPECT_EQ(communicator_bytes(nccl, {2}), communicator_bytes(nccl, {64}));
  EXPECT_LT(communicator_bytes(nccl, {1}), communicator_bytes(nccl, {2}));
}

/// Three pages a channel as it is opened, one buffer to send from and one to receive into a channel.
TEST(Communicator, AllocatesPagesThenBuffers) {
  NcclMemory nccl;
  nccl.communicator = 6 * kMiB;
  nccl.channel = 6 * kMiB;
  nccl.ring_send = 2 * kMiB;
  nccl.ring_receive = 10 * kMiB;
  nccl.ring_channels = 2;
  nccl.p2p_channels = 4;
  nccl.lone_channels = 1;
  std::vector<Bytes> expected(3 + 4 * 3, 2 * kMiB);
  for (int channel = 0; channel < 2; ++channel) expected.insert(expected.end(), {2 * kMiB, 10 * kMiB});
  EXPECT_EQ(communicator_allocations(nccl, {2}), expected);
  EXPECT_EQ(communicator_allocations(nccl, {1}), std::vector<Bytes>(3 + 3, 2 * kMiB));
}

TEST(SpanOf, CountsTheNodesThatAGroupTouches) {
  const auto nodes = [](std::int64_t ranks, std::int64_t apart) { return span_of(ranks, apart, 8).nodes; };
  EXPECT_EQ(nodes(8, 1), 1);
  EXPECT_EQ(nodes(32, 1), 4);
  EXPECT_EQ(nodes(16, 2), 4) << "four ranks a node";
  EXPECT_EQ(nodes(4, 64), 4) << "a rank a node";
}

/// NCCL's logs of two nodes of eight H100 print 16 channels for collectives and 16 for peers, two a peer.
TEST(CommunicatorBytes, OpenFewerChannelsAcrossNodes) {
  const NcclMemory nccl = find_hardware("h100")->nccl;
  const Bytes opened = nccl.communicator + 16 * nccl.channel;
  // Each of eight GPUs leads two of the channels out of the node, where the sender has buffers too.
  EXPECT_EQ(communicator_bytes(nccl, {16, 2}),
            opened + 16 * nccl.ring_receive + 14 * nccl.ring_send + 2 * nccl.ring_receive);
  // A GPU a node has one card, whose channel is doubled twice.
  EXPECT_EQ(communicator_bytes(nccl, {2, 2}), nccl.communicator + 4 * (nccl.channel + 2 * nccl.ring_receive));
}

/// Every peer of an all-to-all over nodes has two channels, of many ranks one; those far away share buffers.
TEST(PointToPointBytes, ShareBuffersAcrossNodes) {
  const NcclMemory nccl = find_hardware("h100")->nccl;
  const Bytes pair = nccl.p2p_send + nccl.p2p_receive, shared = 16 * 2 * kMiB;
  EXPECT_EQ(point_to_point_bytes(nccl, {8}, 7, 7), 7 * 32 * pair);
  EXPECT_EQ(point_to_point_bytes(nccl, {32, 4}, 31, 31), 7 * 2 * pair + 8 * shared + shared);
  EXPECT_EQ(point_to_point_bytes(nccl, {64, 8}, 63, 63), 7 * 1 * pair + 8 * shared + shared);
  EXPECT_EQ(point_to_point_bytes(nccl, {4, 4}, 1, 0), 4 * 2 * kMiB) << "a pipeline of a GPU a node has four channels";
}

}  // namespace
}  // namespace headroom
