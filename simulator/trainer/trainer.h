#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "simulator/hardware/hardware.h"
#include "simulator/trainer/loop.h"

namespace headroom::trainer {

/// What operations read off a kind of GPU; the tape's own figures where the profile states none.
tape::DeviceTraits traits_of(const Hardware& hardware);

/// One training process on one rank: its roles' programs and the step's tensors. Executes actions.
class Trainer {
 public:
  /// `rank`: of its pool. Ranks differ where a pipeline's stages do.
  Trainer(const Job& job, Memory& memory, const tape::DeviceTraits& traits, std::int64_t rank = 0);

  /// One action of `step` (-1 before the first). Errors: a role or verb that no program covers, an optimizer
  /// step without an optimizer.
  Status act(const Action& action, int step);
  /// What a recorder leaves at the start of a phase in a trace: a tensor made and dropped.
  void mark(Bytes bytes);
  tape::Tape& tape() { return tape_; }
  // Set before roles are built:
  double* repeat = nullptr;                 ///< see RoleContext::repeat
  double* filled = nullptr;                 ///< see RoleContext::filled
  std::function<Bytes()> unused;            ///< see RoleContext::unused
  std::function<void()> communicator_made;  ///< see RoleContext::communicator_made

 private:
  bool act_on_experience(const Action& action);
  /// A role on one rank: where its states lie, and the loop over them.
  struct RoleProgram {
    std::unique_ptr<Store> store;
    std::unique_ptr<Loop> loop;
  };
  Status act_on_role(RoleProgram& program, const Action& action);
  tape::Tensor responses_from_outside();
  Status build(const Action& action);
  void experience();
  void forward(RoleProgram& program, const Role& acting, Output output);
  /// One micro-batch of `role`, inside another role's update.
  void score(const std::string& role);
  RoleProgram* program(const std::string& role);
  /// A mask of ones, when a model is given one.
  void make_mask();
  /// What `verb` reads and no action of the step has made comes from outside: it is there from now on.
  void complete(const Role& role, Verb verb);

  const Job& job_;
  tape::Tape tape_;
  tape::Engine engine_;
  tape::megatron::ProcessBuffers buffers_;
  std::int64_t rank_;
  std::map<std::string, RoleProgram> programs_;
  Experience experience_;
  int step_ = -1;  ///< of the running action
  tape::Tensor barrier_;  ///< what the process group's first barrier leaves on the device
  tape::Tensor imports_;  ///< what importing a model's module leaves on the device
};

}  // namespace headroom::trainer
