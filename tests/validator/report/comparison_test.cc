#include "validator/comparison.h"

#include <gtest/gtest.h>

namespace headroom::gpu {
namespace {

/// Two phases: the trainer works in one, in the other only the engine does.
Report report(Bytes trainer, Bytes engine, Bytes outside) {
  Report out;
  out.title = "job";
  DeviceReport& device = out.devices.emplace_back();
  PhaseReport& train = device.phases.emplace_back();
  train.phase = "train_actor";
  train.peak_device = trainer + outside;
  train.processes.emplace_back().process = "trainer";
  train.processes[0].peak_allocated = trainer - kMiB;
  train.processes[0].peak_reserved = trainer;
  train.processes[0].outside = outside;
  PhaseReport& generate = device.phases.emplace_back();
  generate.phase = "generate";
  generate.peak_device = trainer + outside + engine;
  generate.processes.emplace_back().process = "rollout";
  generate.processes[0].peak_reserved = engine;
  return out;
}

Probe probe(Bytes trainer, Bytes engine) {
  Probe out;
  out.report = report(trainer, engine, 0);
  out.outside = 600 * kMiB;
  out.used_by_others = 3 * kMiB;
  const Bytes base = out.outside + out.used_by_others + trainer;
  out.phases.push_back({.step = 0, .phase = "train_actor", .card_peak = base});
  out.phases.push_back({.step = 0, .phase = "generate", .card_peak = base + engine});
  return out;
}

TEST(Validation, CountsNeighboursAndTakesTheProbesOwnOverhead) {
  const Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), probe(10 * kGiB, 30 * kGiB), {});
  ASSERT_EQ(v.rows.size(), 2u);
  for (const ValidationRow& row : v.rows) EXPECT_EQ(row.predicted_device, row.probe_device) << row.phase;
  EXPECT_EQ(v.rows[1].probe_device, 40 * kGiB + 600 * kMiB);
  EXPECT_EQ(v.rows[1].probe_reserved, 0) << "the trainer rests while the engine works";
}

/// A job whose ranks send to each other from its second phase on.
Report sending(Bytes links) {
  Report out = report(10 * kGiB, 0, kGiB);
  auto& phases = out.devices[0].phases;
  phases[1].processes[0] = phases[0].processes[0];
  for (PhaseReport& phase : phases) phase.processes[0].communicators = kGiB / 2;
  phases[1].peak_device += links;
  phases[1].processes[0].outside += links;
  phases[1].processes[0].communicators += links;
  return out;
}

TEST(Validation, WhatNcclTakesLaterIsPredictedNotTakenOver) {
  Probe two = probe(10 * kGiB, 0);
  two.present = {.ranks = 2, .rank = 0, .of_job = 2, .communicators = 1, .communicator_bytes = kGiB / 2};
  two.phases[1].card_peak += 446 * kMiB;
  const Validation right = compare(sending(446 * kMiB), two, {});
  for (const ValidationRow& row : right.rows) EXPECT_EQ(row.predicted_device, row.probe_device) << row.phase;
  const Validation wrong = compare(sending(100 * kMiB), two, {});
  EXPECT_EQ(wrong.rows[1].probe_device - wrong.rows[1].predicted_device, 346 * kMiB);
}

TEST(Validation, ARankAloneHasNobodyToSendTo) {
  const Validation v = compare(sending(446 * kMiB), probe(10 * kGiB, 0), {});
  for (const ValidationRow& row : v.rows) EXPECT_EQ(row.predicted_device, row.probe_device) << row.phase;
}

TEST(Validation, ErrorsAreOfTheDevicePeakAndSigned) {
  const Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), probe(11 * kGiB, 30 * kGiB), {});
  EXPECT_NEAR(v.rows[0].probe_error(), -1.0 / (11 + 600.0 / 1024), 1e-6);
  EXPECT_NEAR(v.probe_errors().worst, 1.0 / (11 + 600.0 / 1024), 1e-6);
}

TEST(Validation, AnEngineWithoutRoomEndsIt) {
  Probe failed = probe(10 * kGiB, 30 * kGiB);
  failed.report.devices[0].phases[1].processes[0].out_of_memory = "no room";
  const Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), failed, {});
  EXPECT_EQ(v.rows.size(), 1u);
  ASSERT_TRUE(v.out_of_memory);
  EXPECT_EQ(*v.out_of_memory, "step 0 generate: no room");
}

TEST(Validation, ABusyCardIsSaid) {
  Probe busy = probe(10 * kGiB, 30 * kGiB);
  busy.used_by_others = 20 * kGiB;
  const Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), busy, {});
  ASSERT_EQ(v.notes.size(), 1u);
  EXPECT_NE(v.notes[0].find("the card was busy: others held 20.00 GiB"), std::string::npos) << v.notes[0];
}

TEST(Validation, TheTableEndsWithItsVerdict) {
  const auto last_line = [](const Validation& v, double margin) {
    const std::string table = validation_table(v, margin);
    return table.substr(table.rfind('\n', table.size() - 2) + 1);
  };
  const Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), probe(11 * kGiB, 30 * kGiB), {});
  EXPECT_EQ(last_line(v, 0.1), "within 10 % in every phase\n");
  EXPECT_EQ(last_line(v, 0.03), "beyond 3 % in: step 0 train_actor\n") << "2.4 % in generate";
  EXPECT_EQ(last_line(Validation{}, 0.03), "no verdict: no phase was both predicted and measured\n");
}

TEST(Validation, APhaseThatWasPredictedButNotMeasuredIsNotPassedOver) {
  Probe one = probe(10 * kGiB, 30 * kGiB);
  one.phases.pop_back();
  Report predicted = report(10 * kGiB, 30 * kGiB, kGiB);
  PhaseReport& covering = predicted.devices[0].phases.emplace_back(predicted.devices[0].phases[0]);
  covering.phase = "update";  // made of the rows within it
  predicted.devices[0].phases[0].within = "update";
  const Validation v = compare(predicted, one, {});
  EXPECT_EQ(v.unmeasured, std::vector<std::string>{"step 0 generate"});
  EXPECT_EQ(verdict(v, 0.03), "beyond 3 % in: step 0 generate (not measured)");
}

TEST(Validation, JsonHasTheAllocatorsCountersAndBothSeconds) {
  Report predicted = report(10 * kGiB, 30 * kGiB, kGiB);
  PhaseReport& train = predicted.devices[0].phases[0];
  train.seconds = 2.5;
  train.processes[0].peak_active = 7;
  train.processes[0].inactive_split_end = 8;
  train.processes[0].segments = 9;
  train.processes[0].retries = 10;
  train.processes[0].n_allocs = 11;
  Probe ran = probe(10 * kGiB, 30 * kGiB);
  ran.report.devices[0].phases[0].processes[0].segments = 12;
  ran.phases[0].seconds = 3.5;
  const std::string json = validation_json(compare(predicted, ran, {}), 0.03);
  for (const char* part : {"\"seconds\": 2.5", "\"active\": 7", "\"inactive_split\": 8", "\"segments\": 9",
                           "\"retries\": 10", "\"allocations\": 11", "\"segments\": 12", "\"seconds\": 3.5",
                           "\"verdict\": \"within 3 % in every phase\""})
    EXPECT_NE(json.find(part), std::string::npos) << part;
}

TEST(Validation, AnotherRanksLackOfMemoryIsTheResult) {
  Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), probe(10 * kGiB, 30 * kGiB), {});
  EXPECT_FALSE(v.ran_out());
  v.ranks = {v.summary(), {.rank = 1, .highest = 0, .errors = {}, .out_of_memory = "step 0 generate: none"}};
  EXPECT_TRUE(v.ran_out());
  const std::string table = validation_table(v, 0.03);
  EXPECT_NE(table.find("rank 1: out of memory in step 0 generate: none\n"), std::string::npos) << table;
  EXPECT_NE(table.find("no verdict: out of memory\n"), std::string::npos) << table;
}

TEST(RankSummaries, TravelAsText) {
  const RankSummary summary{.rank = 3,
                            .highest = 40 * kGiB,
                            .errors = {.phases = 9, .mean = 0.0125, .worst = 0.5},
                            .out_of_memory = {}};
  const auto again = rank_summary(to_text(summary));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->rank, 3);
  EXPECT_EQ(again->highest, 40 * kGiB);
  EXPECT_DOUBLE_EQ(again->errors.mean, 0.0125);
  EXPECT_FALSE(again->out_of_memory);
  EXPECT_FALSE(rank_summary("rubbish"));
  RankSummary without_room = summary;
  without_room.out_of_memory = "step 1 train: tried 2 GiB";
  EXPECT_EQ(rank_summary(to_text(without_room))->out_of_memory, "step 1 train: tried 2 GiB");
}

TEST(Validation, TheTableSaysWhoRan) {
  Probe two = probe(10 * kGiB, 30 * kGiB);
  two.present = {.ranks = 2, .rank = 0, .of_job = 8, .communicators = 1, .communicator_bytes = 936 * kMiB};
  two.neighbours["rollout"] = 527 * kMiB;
  Validation v = compare(report(10 * kGiB, 30 * kGiB, kGiB), two, {});
  v.ranks = {v.summary()};
  const std::string table = validation_table(v, 0.03);
  for (const char* part : {"2 of the job's 8 ranks", "NCCL took 936 MiB for 1 communicators",
                           "what rollout would", "rank 0: device peak"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " in\n" << table;
}

}  // namespace
}  // namespace headroom::gpu
