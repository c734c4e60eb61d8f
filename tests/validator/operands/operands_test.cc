#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "planner/frameworks/registry.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/hardware/library.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/phases/device_run.h"
#include "simulator/phases/machine.h"
#include "simulator/tape/core/names.h"
#include "tests/support/data.h"
#include "validator/quick.h"

// A kernel runs only with all of its operands; without them its outputs are merely touched. Whether a program
// names them shows without a GPU.
namespace headroom::gpu {
namespace {

bool on_host(const Operand& operand) {
  return operand.host != kNoHostBlock;
}

bool any_on_host(const Operation& operation) {
  return std::any_of(operation.inputs.begin(), operation.inputs.end(), on_host) ||
         std::any_of(operation.outputs.begin(), operation.outputs.end(), on_host);
}

/// The host works on its own tensors alone, and knows few kinds of work.
bool host_can(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::host_to_device:
      return operation.outputs.size() == 1 && !on_host(operation.outputs[0]);
    case OperationKind::device_to_host:
      return operation.inputs.size() == 1 && !on_host(operation.inputs[0]);
    case OperationKind::optimizer:
    case OperationKind::reduce:
    case OperationKind::elementwise:
    case OperationKind::copy:
      return std::all_of(operation.inputs.begin(), operation.inputs.end(), on_host);
    default:
      return false;
  }
}

/// What the kernel of a kind needs: so many operands, and inputs as large as it reads.
bool complete(const Operation& operation) {
  if (any_on_host(operation) && !host_can(operation)) return false;
  const std::size_t in = operation.inputs.size(), out = operation.outputs.size();
  switch (operation.kind) {
    case OperationKind::attention_forward:
      return in >= 3 && out >= 1;
    case OperationKind::attention_backward:
      return in >= 7 && out >= 3;
    case OperationKind::norm_forward:
      return in >= 2 && out >= 1;
    case OperationKind::norm_backward:
      return in >= 4 && out >= 1;
    case OperationKind::optimizer: {
      if (in < 4) return false;
      for (const Operand& operand : operation.inputs)
        if (operand.elements < operation.inputs[0].elements) return false;
      return true;
    }
    case OperationKind::cross_entropy:
      return in >= 2 && out >= 1;
    case OperationKind::all_to_all:
    case OperationKind::reduce_scatter:
      return in >= 1 && out >= 1;
    default:
      return true;
  }
}

class Inspected final : public ForwardingMemory {
 public:
  Inspected(Memory& inner, std::map<OperationKind, int>& seen, std::map<std::string, int>& lacking,
            int& host_steps)
      : ForwardingMemory(inner), seen_(seen), lacking_(lacking), host_steps_(host_steps) {}
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override {
    ++seen_[operation.kind];
    if (operation.kind == OperationKind::optimizer && any_on_host(operation)) ++host_steps_;
    if (!complete(operation)) ++lacking_[std::string(tape::operation_text(operation.label.operation))];
  }

 private:
  std::map<OperationKind, int>& seen_;
  std::map<std::string, int>& lacking_;
  int& host_steps_;
};

/// A machine that works nothing and looks at what it is told to.
class Inspector final : public Machine {
 public:
  allocator::Device& device() override { return device_; }
  Memory& attach(SimulatedMemory& accounts) override {
    memory_ = std::make_unique<Inspected>(accounts, seen, lacking, host_steps);
    return *memory_;
  }
  void make_communicator() override { ++communicators; }
  void detach() override { memory_.reset(); }
  Status begin_phase() override { return {}; }
  Result<bool> neighbour(const std::string&, Bytes, Bytes) override { return true; }
  Status end_phase(PhaseReport&) override { return {}; }

  std::map<OperationKind, int> seen;
  std::map<std::string, int> lacking;
  int host_steps = 0;  ///< optimizers that work on the host
  int communicators = 0;

 private:
  allocator::VirtualDevice device_{200 * kGiB};
  std::unique_ptr<Inspected> memory_;
};

/// One step with two layers a model.
void inspect(const std::string& file, const std::vector<std::string>& overrides,
             const std::vector<OperationKind>& expected, bool steps_on_host = false) {
  JobOptions options;
  options.overrides = overrides;
  options.steps = 1;
  const auto read = read_job(std::array{test::source(file).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Job job = with_layers(read->job, 2);
  Inspector machine;
  const auto report = run_on_device(job, *find_hardware("h200"), machine);
  ASSERT_TRUE(report) << report.error().text();
  for (const auto& [name, times] : machine.lacking)
    ADD_FAILURE() << file << ": " << name << " lacks operands " << times << " times";
  for (const OperationKind kind : expected) EXPECT_GT(machine.seen[kind], 0) << static_cast<int>(kind);
  EXPECT_EQ(machine.host_steps > 0, steps_on_host) << file;
  EXPECT_EQ(machine.communicators > 0, makes_communicators(job)) << file;
}

constexpr OperationKind kAttention = OperationKind::attention_backward, kNorm = OperationKind::norm_backward,
                        kAdam = OperationKind::optimizer, kLoss = OperationKind::cross_entropy;

TEST(Operands, OfVerlWithFsdp) {
  inspect("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml", {}, {kAttention, kAdam, kLoss});
  inspect("configs/examples/verl/qwen3-8b-grpo-fsdp2-8xh200.yaml", {}, {kAttention, kAdam, kLoss});
}

TEST(Operands, OfVerlWithMegatron) {
  inspect("configs/examples/verl/qwen2.5-7b-grpo-megatron-8xh100.yaml",
          {"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=1",
           "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=1", "trainer.n_gpus_per_node=2"},
          {kAttention, kNorm, kAdam});
}

TEST(Operands, OfDeepSpeedsEngines) {
  for (const char* stage : {"zero_stage=0", "zero_stage=1", "zero_stage=2", "zero_stage=3"})
    inspect("configs/examples/deepspeed-chat/opt-1.3b-ppo-zero3-offload-2xh100.yaml",
            {stage, "offload=false", "response=2"}, {kAttention, kNorm, kAdam});
  for (const char* stage : {"zero_stage=2", "zero_stage=3"})
    inspect("configs/examples/deepspeed-chat/opt-1.3b-ppo-zero3-offload-2xh100.yaml", {stage, "response=2"},
            {kAttention, kNorm, kAdam, OperationKind::host_to_device, OperationKind::device_to_host}, true);
}

TEST(Operands, OfShardsOnTheHost) {
  inspect("tests/data/rlhf/fsdp-q05-ppo-offload.json", {"response=2"},
          {kAttention, kAdam, OperationKind::host_to_device, OperationKind::device_to_host}, true);
}

TEST(Operands, OfAPlainLoop) {
  for (const char* recording : {"opt13-ppo-none", "q05-ppo-actoff", "q05-grpo-lora", "fsdp-q05-grpo"})
    inspect("tests/data/rlhf/" + std::string(recording) + ".json", {"response=2"}, {kAttention, kAdam});
}

}  // namespace
}  // namespace headroom::gpu
