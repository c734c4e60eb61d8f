#pragma once

#include <cstdint>
#include <string>

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Called around every module (`module`: its label's index): where a runtime gathers and releases parameters
/// module by module. Also while a checkpoint recomputes.
class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  /// A module without parameters of its own begins or ends its forward.
  virtual void enter_container(std::uint32_t module) = 0;
  virtual void leave_container(std::uint32_t module) = 0;
  /// May put another tensor in the input's place.
  virtual void before_module(std::uint32_t module, Tensor& input) = 0;
  virtual void after_module(std::uint32_t module, Tensor& output) = 0;
};

/// Those of the runtime that a model's units are hooked to, if it follows modules too; else null.
inline ModuleHooks* module_hooks(const Model& model) {
  return model.hooks == nullptr ? nullptr : dynamic_cast<ModuleHooks*>(model.hooks);
}

/// A forward of a module without parameters of its own, for as long as this lives. `name`: in its model.
class ContainerVisit {
 public:
  ContainerVisit(Model& model, const std::string& name) : hooks_(module_hooks(model)) {
    if (hooks_ == nullptr) return;
    module_ = model.intern(name);
    hooks_->enter_container(module_);
  }
  ~ContainerVisit() {
    if (hooks_ != nullptr) hooks_->leave_container(module_);
  }
  ContainerVisit(const ContainerVisit&) = delete;
  ContainerVisit& operator=(const ContainerVisit&) = delete;

 private:
  ModuleHooks* hooks_;
  std::uint32_t module_ = 0;
};

/// `body(input)` between the hooks, where there are any; the operand goes as it would without them.
template <typename Body>
Tensor between_hooks(ModuleHooks* hooks, std::uint32_t module, Arg input, const Body& body) {
  Tensor out;
  if (hooks == nullptr) {
    out = body(*input);
  } else {
    Tensor in = *input;
    hooks->before_module(module, in);
    out = body(in);
    in.reset();
    hooks->after_module(module, out);
  }
  done(input);
  return out;
}

}  // namespace headroom::tape
