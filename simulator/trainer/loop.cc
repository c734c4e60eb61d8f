#include "simulator/trainer/loop.h"

#include "models/architecture/family.h"
#include "simulator/phases/megatron_role.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/trainer/packed_loop.h"
#include "simulator/trainer/plain_loop.h"

namespace headroom::trainer {

tape::Tensor Loop::generate(Experience& experience) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  model().options().training = false;
  tape::SampleOptions options;
  options.new_tokens = experience.response;
  options.begin_token = family_facts(role().model->family).begin_token;
  options.temperature = role().loss.scales_samples;
  options.weights_on_host = role().sharding.cpu_offload;
  tape::Tensor out = tape::sample(model(), experience.prompts, options);
  model().options().training = role().trained;
  return out;
}

std::unique_ptr<Loop> make_loop(Store& store) {
  const RoleContext& context = store.context();
  if (context.role.sharding.kind == ShardingKind::megatron)
    return std::make_unique<phases::PipelinedLoop>(static_cast<phases::MegatronRole&>(store));
  if (context.role.loop != nullptr) return context.role.loop->make(store);
  // A batch on the host comes packed, micro-batch by micro-batch; one on the device is cut where it lies.
  if (!context.padded) return std::make_unique<PackedLoop>(store);
  return std::make_unique<PlainLoop>(store);
}

}  // namespace headroom::trainer
