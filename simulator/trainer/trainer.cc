#include "simulator/trainer/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/architecture/modules.h"
#include "simulator/job/batching.h"
#include "simulator/job/loop_kind.h"
#include "simulator/job/names.h"
#include "simulator/job/standard_step.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kBarrier = tape::operation_name("barrier"), kMarker = tape::operation_name("marker"),
                    kImport = tape::operation_name("import"), kPrompts = tape::operation_name("prompts"),
                    kRewards = tape::operation_name("rewards"),
                    kMask = tape::operation_name("attention_mask"),
                    kTokens = tape::operation_name("random_tokens"), kGiven = tape::operation_name("given");

/// Sharding runtimes gather, copy and reduce on streams of their own.
constexpr std::size_t kStreamsARole = 3;

/// cuBLAS's larger workspace and cuDNN's attention come with the same GPUs: compute capability 9 and 10.
constexpr Bytes kHopperWorkspace = 32 * kMiB;

/// The head of PyTorch's order (sdp_utils.cpp: priority_order): cuDNN since Hopper, flash before; GPUs older
/// than Ampere, which have no bf16, take the memory-efficient kernel.
tape::AttentionBackend preferred_kernel(const Hardware& hardware, tape::AttentionBackend otherwise) {
  if (hardware.cublas_workspace == 0) return otherwise;
  if (hardware.cublas_workspace >= kHopperWorkspace) return tape::AttentionBackend::cudnn;
  return hardware.matrix.bf16 > 0 ? tape::AttentionBackend::flash : tape::AttentionBackend::efficient;
}

/// `traits` with the kernel that the job's roles are held to.
tape::DeviceTraits held_to_kernel(tape::DeviceTraits traits, const Job& job) {
  constexpr std::pair<AttentionKernel, tape::AttentionBackend> kKernels[] = {
      {AttentionKernel::cudnn, tape::AttentionBackend::cudnn},
      {AttentionKernel::flash, tape::AttentionBackend::flash},
      {AttentionKernel::efficient, tape::AttentionBackend::efficient},
      {AttentionKernel::math, tape::AttentionBackend::math}};
  for (const Role& role : job.roles)
    for (const auto& [asked, kernel] : kKernels)
      if (role.attention_kernel == asked) traits.attention = kernel;
  return traits;
}

}  // namespace

tape::DeviceTraits traits_of(const Hardware& hardware) {
  tape::DeviceTraits traits;
  if (hardware.multiprocessors > 0) traits.multiprocessors = hardware.multiprocessors;
  if (hardware.cublas_workspace > 0) traits.cublas_workspace = hardware.cublas_workspace;
  traits.attention = preferred_kernel(hardware, traits.attention);
  return traits;
}

Trainer::Trainer(const Job& job, Memory& memory, const tape::DeviceTraits& traits, std::int64_t rank)
    : job_(job), tape_(memory, held_to_kernel(traits, job)), engine_(tape_), buffers_(tape_), rank_(rank) {
  tape_.label().component = Component::temporaries;
  const std::int64_t data = job.roles.empty() ? 1 : data_parallel_size(job, job.roles.front());
  experience_.batch = job.batch.sequences() / std::max<std::int64_t>(data, 1);
  experience_.prompt = job.batch.prompt_length;
  experience_.response = job.batch.response_length;
}

void Trainer::mark(Bytes bytes) {
  if (bytes > 0) tape_.empty({bytes}, DType::uint8, kMarker).reset();
}

Trainer::RoleProgram* Trainer::program(const std::string& role) {
  // A LoRA reference is the actor with its adapters off.
  const Role* known = job_.role(role);
  const bool shares = known != nullptr && !known->shares_weights_of.empty();
  const auto found = programs_.find(shares ? known->shares_weights_of : role);
  return found == programs_.end() ? nullptr : &found->second;
}

void Trainer::make_mask() {
  if (std::any_of(job_.roles.begin(), job_.roles.end(), [](const Role& r) { return r.attention_mask; }))
    experience_.mask =
        tape_.empty({experience_.batch, experience_.prompt + experience_.response}, DType::int64, kMask);
}

void Trainer::complete(const Role& role, Verb verb) {
  Experience& e = experience_;
  const std::int64_t length = e.prompt + e.response;
  const auto give = [&](Tensor& tensor, std::initializer_list<std::int64_t> shape, DType type) {
    if (!tensor.defined()) tensor = tape_.empty(shape, type, kGiven);
  };
  if (verb == Verb::generate) give(e.prompts, {e.batch, e.prompt}, DType::int64);
  if (!lies_padded(job_, role) || (verb != Verb::forward && verb != Verb::train)) return;
  give(e.sequences, {e.batch, length}, DType::int64);
  if (!e.mask.defined()) make_mask();
  if (verb == Verb::forward || job_.algorithm == Algorithm::sft || job_.algorithm == Algorithm::reward_model)
    return;
  if (job_.algorithm == Algorithm::dpo) return give(e.ref_logprobs, {e.batch, length - 1}, DType::fp32);
  if (role.head != HeadKind::language_model) return give(e.values, {e.batch, length}, DType::fp32);
  give(e.old_logprobs, {e.batch, length - 1}, DType::fp32);
  if (!e.ref_logprobs.defined()) e.ref_logprobs = e.old_logprobs;
  if (!e.advantages.defined()) experience();
  give(e.advantages, {e.batch, length - 1}, DType::fp32);
}

Status Trainer::build(const Action& action) {
  const Role* role = job_.role(action.role);
  if (role == nullptr) return fail(fmt::format("no role is named {}", action.role));
  if (!imports_.defined() && role->loop == nullptr) imports_ = tape_.empty({}, DType::fp32, kImport);
  const std::int64_t data = std::max<std::int64_t>(data_parallel_size(job_, *role), 1);
  RoleContext context{.tape = tape_,
                      .engine = engine_,
                      .role = *role,
                      .packed_train = {},
                      .packed_forward = {},
                      .unused = unused,
                      .communicator_made = communicator_made,
                      .score = [this](const std::string& name) { score(name); }};
  context.ranks = shard_group_size(job_, *role);
  context.micro_batch = role->train.sequences > 0 ? role->train.sequences : experience_.batch;
  context.forward_batch = role->forward.sequences > 0 ? role->forward.sequences : context.micro_batch;
  context.mini_batch = std::max<std::int64_t>(mini_batch_of(job_, *role) / data, 1);
  context.first_stream = static_cast<Stream>(1 + kStreamsARole * programs_.size());
  context.epochs = role->epochs > 0 ? role->epochs : job_.batch.epochs;
  context.padded = lies_padded(job_, *role);
  context.repeat = repeat;
  context.filled = filled;
  context.algorithm = job_.algorithm;
  context.world = ranks_of(job_, *role);
  context.rank = rank_;
  context.process = &buffers_;
  context.listed = &job_.lengths.listed;
  context.reads_norm = !context.padded;
  for (const Engine& engine : job_.engines)
    if (engine.role == role->name && inside_trainer(engine)) context.generator = &engine;
  if (!context.padded) {
    // Rectangles are as wide as the longest sequence, where that is known apart from the usual length.
    const bool widened = !role->packed && job_.lengths.max_total > 0;
    const std::int64_t length = widened ? job_.lengths.max_total : job_.batch.sequence_length();
    context.packed_train = micro_batches(job_, *role, Pass::train, length);
    context.packed_forward = micro_batches(job_, *role, Pass::forward, length);
  }
  RoleProgram made;
  HEADROOM_ASSIGN(made.store, make_store(context));
  HEADROOM_TRY(made.store->build());
  made.loop = make_loop(*made.store);
  programs_[action.role] = std::move(made);
  return {};
}

void Trainer::score(const std::string& role) {
  RoleProgram* asked = program(role);
  if (asked == nullptr) return;  // validation says so
  asked->loop->begin_pass(*job_.role(role), step_);
  asked->loop->score_micro_batch();
}

void Trainer::forward(RoleProgram& program, const Role& acting, Output output) {
  Tensor result = program.loop->forward(experience_, output);
  if (output == Output::rewards)
    experience_.rewards = std::move(result);
  else if (output == Output::values)
    experience_.values = std::move(result);
  else if (acting.trained)
    experience_.old_logprobs = std::move(result);
  else
    experience_.ref_logprobs = std::move(result);
}

void Trainer::experience() {
  if (!experience_.rewards.defined() || !experience_.old_logprobs.defined()) return;
  if (!experience_.ref_logprobs.defined()) experience_.ref_logprobs = experience_.old_logprobs;
  Tensor centre = tape::mean(experience_.rewards);
  Tensor centred = tape::sub(experience_.rewards, std::move(centre));
  Tensor column = tape::unsqueeze(centred, 1);
  const Tensor& like = experience_.old_logprobs;
  Tensor wide = tape::expand(std::move(column), {like.size(0), like.size(1)});
  experience_.advantages = tape::contiguous(wide);
  tape::drop(centred, wide);
}

/// Actions on the step's tensors and the process, of no role; false: it is none of them.
bool Trainer::act_on_experience(const Action& action) {
  Experience& e = experience_;
  switch (action.verb) {
    case Verb::join_group:
      barrier_ = tape_.empty({}, DType::fp32, kBarrier);
      return true;
    case Verb::take_prompts:
      e.prompts = tape_.empty({e.batch, e.prompt}, DType::int64, kPrompts);
      return true;
    case Verb::drop_prompts:
      e.prompts.reset();
      make_mask();
      return true;
    case Verb::take_rewards:
      e.rewards = tape_.empty({e.batch}, DType::fp32, kRewards);
      return true;
    case Verb::experience:
      experience();
      return true;
    case Verb::end_step:
      tape::drop(e.sequences, e.old_logprobs, e.ref_logprobs, e.values, e.advantages, e.rewards, e.mask);
      return true;
    case Verb::empty_cache:
      tape_.memory().empty_cache();
      return true;
    case Verb::reset_peaks:
      return true;  // of the executor's counters
    default:
      return false;
  }
}

/// Responses of an engine elsewhere, joined to the prompts.
Tensor Trainer::responses_from_outside() {
  Tensor responses = tape_.empty({experience_.batch, experience_.response}, DType::int64, kTokens);
  return tape::cat(experience_.prompts, std::move(responses), 1);
}

namespace {

/// What each rank writes of its own in a save: `parts`; where none are named, weights and optimizer, or nothing
/// of a model that is gathered.
unsigned saved_parts(const Action& action) {
  if (action.parts != 0) return action.parts;
  return action.gathered ? 0 : kWeights | kOptimizer;
}

}  // namespace

Status Trainer::act_on_role(RoleProgram& program, const Action& action) {
  Experience& e = experience_;
  switch (action.verb) {
    case Verb::build_optimizer:
      program.store->build_optimizer();
      return {};
    case Verb::create_states:
      program.store->create_states();
      return {};
    case Verb::forward:
      forward(program, *job_.role(action.role), action.output);
      return {};
    case Verb::call:
      find_call(*program.store->role().loop, action)->run(*program.loop, e);
      return {};
    case Verb::train:
      program.loop->train(e);
      return {};
    case Verb::export_weights:
      program.store->export_weights();
      return {};
    case Verb::sync_weights:
      if (const Engine* engine = job_.engine(action.engine)) program.store->sync_weights(engine->sync);
      return {};
    case Verb::save:
      program.store->save(saved_parts(action), action.gathered);
      return {};
    case Verb::release:
      program.store->release(action.parts);
      return {};
    case Verb::load:
    case Verb::offload:
      program.store->move(action.parts, action.verb == Verb::load);
      return {};
    case Verb::generate:
      // `eval()` before, `train()` afterwards.
      tape_.memory().host_work(HostWork::module_visit, 2 * modules_of(*program.store->role().model));
      e.sequences = action.engine.empty() ? responses_from_outside() : program.loop->generate(e);
      return {};
    default:
      return fail(fmt::format("no program yet for action {}", enum_name(action.verb)));
  }
}

Status Trainer::act(const Action& action, int step) {
  if (action.verb == Verb::build) return build(action);
  if (act_on_experience(action)) return {};
  if (action.from_step_one && step < 1) return {};
  RoleProgram* p = program(action.role);
  if (p == nullptr)
    return fail(fmt::format("{}: role {} has not been built", enum_name(action.verb), action.role));
  if (p->store->role().loop == nullptr) complete(p->store->role(), action.verb);
  const bool steps = action.verb == Verb::train || action.verb == Verb::create_states;
  if (steps && !p->store->has_optimizer())
    return fail(
        fmt::format("{}: the optimizer of role {} has not been built", enum_name(action.verb), action.role));
  step_ = step;
  p->loop->begin_pass(*job_.role(action.role), step);
  return act_on_role(*p, action);
}

}  // namespace headroom::trainer
