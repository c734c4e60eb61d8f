#pragma once

#include <memory>

#include "simulator/phases/role_program.h"
#include "simulator/tape/sharding/runtime.h"

namespace headroom::phases {

/// A role whose parameters FSDP spreads over the ranks: the optimizer works on this rank's shards.
class ShardedRole : public RoleProgram {
 public:
  explicit ShardedRole(const RoleContext& context) : RoleProgram(context) {}

  Status build() override;
  void move(unsigned parts, bool to_device, bool first_step) override;

 protected:
  void before_micro_batch(std::int64_t micro_batch, std::int64_t micro_batches) override;
  std::vector<tape::Tensor> trainable() override;
  void clip_gradients() override;

 private:
  std::unique_ptr<tape::ShardingRuntime> runtime_;
};

}  // namespace headroom::phases
