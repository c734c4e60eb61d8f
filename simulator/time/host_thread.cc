#include "simulator/time/host_thread.h"

#include <algorithm>

#include "simulator/tape/core/names.h"

namespace headroom {

const HostThread::Trait& HostThread::trait(std::uint16_t operation) {
  if (operation >= traits_.size()) traits_.resize(std::max<std::size_t>(operation + 1u, 2 * traits_.size()));
  Trait& out = traits_[operation];
  if (out.known) return out;
  struct Named {
    std::string_view name;
    Special special;
  };
  static constexpr Named kNamed[] = {
      {"aten::_foreach_sqrt", Special::in_list},
      {"aten::_foreach_norm", Special::norm_in_list},
      {"aten::_foreach_adamw_", Special::foreach_step},
      {"aten::_fused_adamw_", Special::fused_step},
      {"aten::adamw", Special::loop_step},
      {"fsdp::all_gather_output", Special::unshard},
      {"fsdp::reduce_scatter_output", Special::reduce},
      {"fsdp1::all_gather", Special::flat_unit},
      {"fsdp1::reduce_scatter", Special::flat_unit},
  };
  const std::string& name = tape::operation_text(operation);
  const auto* named =
      std::find_if(std::begin(kNamed), std::end(kNamed), [&](const Named& one) { return one.name == name; });
  out = {true, named != std::end(kNamed) ? named->special : Special::none, kernel_form(name)};
  return out;
}

double HostThread::special(Special special) const {
  switch (special) {
    case Special::norm_in_list:
      return times_.norm_parameter;
    case Special::foreach_step:
      return times_.foreach_parameter;
    case Special::fused_step:
      return times_.fused_parameter;
    case Special::loop_step:
      return times_.loop_parameter;
    case Special::unshard:
      return times_.unshard;
    case Special::reduce:
      return times_.reduce;
    case Special::flat_unit:
      // Counted, not measured: a storage resized, two events, a stream switched, hooks before and after, views.
      return 6 * (times_.allocation + times_.launch);
    case Special::in_list:
    case Special::none:
      break;
  }
  return 0;
}

double HostThread::allocation(Label label) {
  const Special special = trait(label.operation).special;
  return special == Special::in_list || special == Special::norm_in_list ? 0 : times_.allocation;
}

double HostThread::work(HostWork what) {
  switch (what) {
    case HostWork::module_visit:
      return times_.module_visit;
    case HostWork::checkpoint:
      return times_.checkpoint;
    case HostWork::megatron_linear:
      by_module_ = true;
      return times_.megatron_linear;
    case HostWork::megatron_linear_gradient:
      return times_.megatron_linear_gradient;
    case HostWork::expert_exchange:
      return times_.expert_exchange;
  }
  return 0;
}

double HostThread::operation(const Operation& operation) {
  const Trait& t = trait(operation.label.operation);
  if (t.special != Special::none) return special(t.special);
  const bool gradient = t.form == KernelForm::backward, product = operation.kind == OperationKind::matmul;
  double seconds = times_.launch;
  if (product)
    seconds += gradient ? times_.product_gradient : times_.product;
  else if (gradient)
    seconds += times_.gradient;
  if (operation.kind == OperationKind::embedding && !in_model_) {
    in_model_ = true;
    seconds += times_.model_call;
  }
  if (operation.kind == OperationKind::sample) seconds += times_.token;
  // In a backward pass a layer's forward runs again: what no gradient's name stands over.
  const bool tells = product || gradient || operation.kind == OperationKind::norm_forward;
  if (product) in_model_ = false;
  if (tells) {
    if (backward_ && !gradient && !by_module_) seconds += times_.recompute;
    backward_ = gradient;
  }
  return seconds;
}

}  // namespace headroom
