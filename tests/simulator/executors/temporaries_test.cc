#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/frameworks/registry.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/closed_form/folded_trainer.h"
#include "simulator/closed_form/layer_fold.h"
#include "simulator/hardware/library.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/phases/device_run.h"
#include "simulator/phases/simulate.h"
#include "simulator/tape/core/tape.h"
#include "tests/support/data.h"

/// The tensor program is written once: leaving one temporary out of the tape, or making it larger, changes
/// all three executors. The linker puts `altered` in front of Tape::empty (tests/CMakeLists.txt), so that
/// nothing else has to know of the change.

namespace headroom {
namespace {

/// A kind of allocation: what makes it, and what it is for.
struct Kind {
  std::uint16_t operation = 0;
  Component component = Component::other;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

/// What is done to allocations of one kind.
struct Change {
  Kind kind;
  bool left_out = false;
  Bytes more = 0;
};
std::optional<Change> change;  // NOLINT: the linker's seam has no other way in

constexpr Bytes kMore = 96 * kGiB, kCard = Bytes{1} << 50;

}  // namespace

tape::Tensor original(tape::Tape* tape, const tape::Shape& shape, DType dtype, std::uint16_t operation) asm(
    "__real__ZN8headroom4tape4Tape5emptyERKNS0_5ShapeENS_5DTypeEt");
tape::Tensor altered(tape::Tape* tape, const tape::Shape& shape, DType dtype, std::uint16_t operation) asm(
    "__wrap__ZN8headroom4tape4Tape5emptyERKNS0_5ShapeENS_5DTypeEt");

tape::Tensor altered(tape::Tape* tape, const tape::Shape& shape, DType dtype, std::uint16_t operation) {
  const std::uint16_t made_by = tape->operation() != 0 ? tape->operation() : operation;
  if (!change || change->kind != Kind{made_by, tape->label().component} || shape.elements() == 0)
    return original(tape, shape, dtype, operation);
  const Bytes bytes = change->left_out ? 0 : bytes_of(dtype, shape.elements()) + change->more;
  const tape::Tensor storage = original(tape, {bytes}, DType::uint8, operation);
  tape::Tensor out = tape->alias(storage, shape, 0, false);
  out->dtype = dtype;
  return out;
}

namespace {

/// The program as a GPU would get it: its allocations and its operations, in order.
struct Program {
  std::vector<std::pair<Kind, Bytes>> allocations;
  std::vector<std::pair<OperationKind, std::uint16_t>> operations;
  friend bool operator==(const Program&, const Program&) = default;
};

/// Writes the program down in the place of a GPU.
class ProgramWriter final : public Machine {
 public:
  allocator::Device& device() override { return device_; }
  Memory& attach(SimulatedMemory& accounts) override { return writing_.emplace(accounts, *this); }
  void make_communicator() override {}
  void detach() override { writing_.reset(); }
  Status begin_phase() override {
    program_.allocations.resize(reported_);  // what lies between phases has no row in a report
    return {};
  }
  Result<bool> neighbour(const std::string&, Bytes, Bytes) override { return true; }
  Status end_phase(PhaseReport&) override {
    reported_ = program_.allocations.size();
    return {};
  }
  const Program& program() const { return program_; }

 private:
  class Writing final : public ForwardingMemory {
   public:
    Writing(Memory& inner, ProgramWriter& writer) : ForwardingMemory(inner), writer_(writer) {}
    Block allocate(Bytes requested, Stream stream, Label label) override {
      if (requested > 0)
        writer_.program_.allocations.push_back({{label.operation, label.component}, requested});
      return ForwardingMemory::allocate(requested, stream, label);
    }
    bool wants_operations() const override { return true; }
    void run(const Operation& operation) override {
      writer_.program_.operations.emplace_back(operation.kind, operation.label.operation);
      ForwardingMemory::run(operation);
    }

   private:
    ProgramWriter& writer_;
  };

  allocator::VirtualDevice device_{kCard};
  Program program_;
  std::size_t reported_ = 0;  ///< allocations up to the end of the last phase
  std::optional<Writing> writing_;
};

/// The example's job with few layers.
Job example(const std::string& path) {
  Result<ReadJob> read = read_job(std::array{test::source("configs/examples/" + path).string()}, {});
  EXPECT_TRUE(read) << read.error().text();
  if (!read) return {};
  Job job = std::move(read->job);
  std::map<const Architecture*, std::shared_ptr<const Architecture>> few;
  for (Role& role : job.roles) {
    if (role.model == nullptr) continue;
    auto& cut = few[role.model.get()];
    if (cut == nullptr)
      cut = closed_form::with_last_group(*role.model, role.parallel.pipeline * (closed_form::kFewLayers + 2));
    if (cut != nullptr) role.model = cut;
  }
  job.device_memory = 0;
  job.steps = 1;
  job.batch.prompt_length = std::min<std::int64_t>(job.batch.prompt_length, 48);
  job.batch.response_length = std::min<std::int64_t>(job.batch.response_length, 16);
  return job;
}

/// A card on which everything has room, so that no run ends early.
Hardware roomy() {
  Hardware out = *load_hardware("h100");
  out.total_memory = kCard;
  return out;
}

/// The phases' highest bytes on the first device, engines beside the trainer included, added up.
Bytes peaks_of(const Result<Report>& report) {
  EXPECT_TRUE(report) << report.error().text();
  if (!report) return 0;
  Bytes sum = 0;
  for (const PhaseReport& phase : report->devices.front().phases) sum += phase.peak_device;
  return sum;
}

/// What each executor says of a job: its phases' peaks; the program that a GPU would run.
struct Answers {
  Bytes closed_form = 0, simulator = 0, probe = 0;
  Program program;
};

Answers ask(const Job& job) {
  ProgramWriter writer;
  const Bytes probe = peaks_of(run_on_device(job, roomy(), writer));
  return {.closed_form = peaks_of(closed_form::estimate(job, roomy())),
          .simulator = peaks_of(simulate(job, roomy())),
          .probe = probe,
          .program = writer.program()};
}

std::string named(const Kind& kind) {
  return std::string(tape::operation_text(kind.operation)) + " of " + std::string(name(kind.component));
}

/// Some kinds of the program's temporaries, evenly chosen.
std::vector<Kind> temporaries_of(const Program& program) {
  std::set<Kind> all;
  for (const auto& [kind, bytes] : program.allocations)
    if (kind.component == Component::temporaries || kind.component == Component::logits) all.insert(kind);
  constexpr std::size_t kSample = 16;
  std::vector<Kind> out;
  std::size_t at = 0;
  for (const Kind& kind : all)
    if (at++ * kSample / all.size() >= out.size()) out.push_back(kind);
  return out;
}

class Temporaries : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { change.reset(); }
};

TEST_P(Temporaries, LeftOutOfTheTapeAreMissedByEveryExecutor) {
  const Job job = example(GetParam());
  const Answers plain = ask(job);
  const std::vector<Kind> kinds = temporaries_of(plain.program);
  EXPECT_GE(kinds.size(), 10u);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(named(kind));
    // So large that it decides the peak.
    change = Change{.kind = kind, .more = kMore};
    const Answers with = ask(job);
    EXPECT_GT(with.closed_form, plain.closed_form + kMore / 2);
    EXPECT_GT(with.simulator, plain.simulator + kMore / 2);
    EXPECT_GT(with.probe, plain.probe + kMore / 2);
    change = Change{.kind = kind, .left_out = true};
    const Answers without = ask(job);
    EXPECT_LT(without.closed_form, plain.closed_form + kMore / 2);
    EXPECT_LT(without.simulator, plain.simulator + kMore / 2);
    EXPECT_LT(without.probe, plain.probe + kMore / 2);
    EXPECT_NE(without.program, plain.program);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Examples, Temporaries,
    testing::Values("colossalchat/gpt2-medium-ppo-gemini-4x3090.sh",
                    "colossalchat/opt-1.3b-ppo-zero2-4x3090.sh",
                    "deepspeed-chat/opt-1.3b-ppo-zero3-offload-2xh100.yaml",
                    "deepspeed-chat/opt-13b-ppo-hybrid-8xa100.sh",
                    "easyr1/qwen2.5-7b-dapo-ulysses-8xh100.yaml", "job/llama-3.2-1b-ppo-1xh100.yaml",
                    "nemo-rl/qwen3-8b-grpo-async-2x8xh100.yaml", "nemo-rl/qwen2.5-7b-grpo-tp2-8xh100.yaml",
                    "openrlhf/llama-3-8b-dpo-ring-8xa100.sh", "trl/llama-3.2-1b-dpo-fsdp2-2xh100.yaml",
                    "trl/pythia-1b-ppo-zero2-2xh100.sh", "trl/qwen2.5-0.5b-grpo-1xh100.yaml",
                    "verl/llama-3.1-8b-ppo-8xh100.yaml", "verl/qwen2.5-7b-grpo-lora-2xa100.yaml",
                    "verl/qwen2.5-7b-grpo-megatron-8xh100.yaml", "verl/qwen3-8b-grpo-fsdp2-8xh200.yaml"),
    [](const auto& one) {
      std::string out;
      for (const char c : one.param.substr(0, one.param.rfind('.')))
        out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return out;
    });

}  // namespace
}  // namespace headroom
