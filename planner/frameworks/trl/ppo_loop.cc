#include "planner/frameworks/trl/ppo_loop.h"

#include <algorithm>
#include <utility>

#include "planner/frameworks/trl/loops.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::trl {
namespace {

using tape::Tensor;

const std::uint16_t kQueries = tape::operation_name("queries"),
                    kMask = tape::operation_name("attention_mask"),
                    kStatistics = tape::operation_name("statistics"),
                    kPad = tape::operation_name("aten::full"),
                    kCompare = tape::operation_name("aten::compare"),
                    kSub = tape::operation_name("aten::sub"), kIndex = tape::operation_name("aten::index");

constexpr std::size_t kStatisticsKinds = 7;

/// torch.stack along a new dimension.
Tensor stack(const std::vector<Tensor>& parts, int dimension) {
  std::vector<Tensor> wide;
  for (const Tensor& part : parts) wide.push_back(tape::unsqueeze(part, dimension));
  return tape::cat(wide, dimension);
}

/// TRL's pad(): one tensor for all parts, each as long as the longest, seen as its first `rows` rows.
Tensor padded(tape::Tape& tape, const std::vector<Tensor>& parts, std::int64_t rows) {
  const tape::Shape& first = parts.front().shape();
  const std::int64_t longest = parts.front().size(0), count = static_cast<std::int64_t>(parts.size());
  tape::Shape all = first;
  all.size[0] = count * longest;
  set_contiguous(all);
  Tensor out = tape.empty(all, parts.front().dtype(), kPad);
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    tape::copy_in_place(tape::slice(out, 0, at, part.size(0)), part);
    at += longest;
  }
  return tape::slice(std::move(out), 0, 0, rows);
}

/// What `forward` and `get_reward` make of sequences: where there is no padding, positions, and tokens.
void make_inputs(PpoVariables::Outputs& out, const Tensor& sequences) {
  out.mask = tape::plain(kCompare, DType::boolean, sequences);
  {
    Tensor counted = tape::cumsum(out.mask);
    Tensor ones = tape::to(out.mask, DType::int64);
    out.positions = tape::plain(kSub, DType::int64, std::move(counted), std::move(ones));
  }
  const Tensor absent = tape::plain(kCompare, DType::boolean, out.mask);
  out.ids = tape::masked_fill(sequences, absent);
}

tape::ModelInput input_of(PpoVariables::Outputs& outputs, bool cached) {
  tape::ModelInput input;
  input.ids = outputs.ids;
  input.attention_mask = outputs.mask;
  input.position_ids = outputs.positions;
  input.hidden = &outputs.hidden;
  if (cached) input.cache = &outputs.cache;
  return input;
}

/// The position of the first padding token a row.
Tensor first_padding(const Tensor& tokens) {
  Tensor is_padding = tape::plain(kCompare, DType::boolean, tokens);
  Tensor present = tape::plain(kCompare, DType::boolean, std::move(is_padding));
  Tensor counted = tape::mul_scalar(tape::to(std::move(present), DType::int64));
  Tensor range = tokens.tape().empty({tokens.size(1)}, DType::int64, kIndex);
  Tensor where = tape::add(std::move(counted), std::move(range));
  Tensor places = tokens.tape().empty({tokens.size(0)}, DType::int64, kIndex);
  Tensor first = tape::reduce(kIndex, DType::int64, 16, std::move(where), 2u, false);
  places.reset();
  return tape::add_scalar(std::move(first));
}

/// tensor[indices]: the indices come to the device and go.
Tensor rows_of(const Tensor& tensor, std::int64_t count) {
  tape::Tape& tape = tensor.tape();
  const Tensor indices = tape.empty({count}, DType::int64, kIndex);
  tape::Shape shape = tensor.shape();
  shape.size[0] = count;
  set_contiguous(shape);
  return tape.empty(shape, tensor.dtype(), kIndex);
}

}  // namespace

PpoVariables& PpoLoop::variables(Experience& e) {
  PpoVariables& l = e.own<PpoVariables>(role().loop);
  tape::drop(l.ignored_score, l.ignored_logits);
  return l;
}

void PpoLoop::take_queries(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::ComponentScope component(tape_, Component::temporaries);
  if (l.statistics.empty())
    for (std::size_t i = 0; i < kStatisticsKinds; ++i)
      l.statistics.push_back(
          tape_.empty({context_.epochs * ceil_div(e.batch, context_.micro_batch)}, DType::fp32, kStatistics));
  Tensor queries = tape_.empty({e.batch, e.prompt}, DType::int64, kQueries);
  Tensor mask = tape_.empty({e.batch, e.prompt}, DType::int64, kMask);
  l.query_mask = std::move(mask);
  l.queries = std::move(queries);
  l.chunk = l.micro_batches = 0;
}

/// Completions of one chunk, with the scores of every token beside each other.
void PpoLoop::generate_chunk(const Tensor& queries, std::vector<Tensor>& sequences,
                             std::vector<Tensor>& scores, std::int64_t response) {
  Tensor mask = tape::plain(kCompare, DType::boolean, queries), ids;
  {
    const Tensor absent = tape::plain(kCompare, DType::boolean, mask);
    ids = tape::masked_fill(queries, absent);
  }
  tape::SampleOutput output;
  tape::SampleOptions options;
  options.new_tokens = response;
  // The trainer asks without special tokens; it was recorded with models that name none either.
  options.begin_token = options.end_token = false;
  options.length_processors = false;
  options.temperature = true;
  options.mask = mask;
  options.output = &output;
  Tensor generated = tape::sample(model(), ids, options);
  options.mask.reset();
  Tensor table;
  {
    const tape::ComponentScope component(tape_, Component::logits);
    table = stack(output.scores, 1);
  }
  Tensor answer = tape::slice(generated, 1, queries.size(1), response);
  sequences.push_back(tape::cat(queries, answer, 1));
  scores.push_back(std::move(table));
  output.scores.clear();
  output.cache.clear();
}

Tensor PpoLoop::generate(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  std::vector<Tensor> sequences, scores;
  for (std::int64_t i = 0; i < e.batch; i += context_.forward_batch) {
    const Tensor queries = tape::slice(l.queries, 0, i, std::min(context_.forward_batch, e.batch - i));
    generate_chunk(queries, sequences, scores, e.response);
  }
  l.next_sequences = padded(tape_, sequences, e.batch);
  const tape::ComponentScope table(tape_, Component::logits);
  l.next_scores = padded(tape_, scores, e.batch);
  return {};
}

/// The chunk's views, and its log-probs out of generation's scores.
void PpoLoop::begin_chunk(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  if (l.next_scores.defined()) {
    l.sequences = std::move(l.next_sequences);
    l.scores = std::move(l.next_scores);
  }
  const std::int64_t count = std::min(context_.forward_batch, e.batch - l.chunk);
  l.query = tape::slice(l.queries, 0, l.chunk, count);
  l.sequence = tape::slice(l.sequences, 0, l.chunk, count);
  l.response = tape::slice(l.sequence, 1, e.prompt, e.response);
  rollout_logprobs(l);
  tape_.memory().empty_cache();
}

void PpoLoop::score_reference(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  make_inputs(l.reference, l.sequence);
  l.reference.logits = model().forward(input_of(l.reference, true));
  tape::drop(l.reference.ids, l.reference.positions, l.reference.mask);
}

/// Values of all positions of `sequences`; `last`: those of the last tokens.
Tensor PpoLoop::score(PpoVariables& l, const Tensor& sequences, Tensor& last) {
  PpoVariables::Outputs outputs;
  make_inputs(outputs, sequences);
  Tensor all = model().forward(input_of(outputs, false));
  Tensor lengths = tape::add_scalar(first_padding(l.response));
  {
    const Tensor rows = tape_.empty({all.size(0)}, DType::int64, kIndex);
    last = tape_.empty({all.size(0)}, all.dtype(), kIndex);
  }
  l.ignored = std::move(lengths);
  return all;
}

void PpoLoop::score_values(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Tensor last, all = score(l, l.sequence, last);
  l.ignored_score = std::move(last);
  l.full_value = std::move(all);
  l.value = tape::slice(l.full_value, 1, e.prompt - 1, e.response);
}

void PpoLoop::score_rewards(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Tensor last, all = score(l, l.reward_input, last);
  l.reward = std::move(last);
  l.ignored_logits = std::move(all);
  end_chunk(l);
}

/// The chunk is through: its parts wait for the others'.
void PpoLoop::end_chunk(PpoVariables& l) {
  l.responses.push_back(l.response);
  l.logprobs.push_back(l.logprob);
  l.ref_logprobs.push_back(l.ref_logprob);
  l.length_parts.push_back(l.lengths);
  l.reward_parts.push_back(l.reward);
  l.value_parts.push_back(l.value);
  l.chunk += l.query.size(0);
}

void PpoLoop::reference_logprobs(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  PpoVariables& l = variables(e);
  const tape::GradMode no_grad(tape_, false);
  {
    Tensor logits = tape::slice(l.reference.logits, 1, e.prompt - 1, e.response);
    logits = tape::div_in_place(std::move(logits), l.reference.logits);
    l.ref_logprob = trainer::selective_log_softmax(logits, l.response);
    l.reference.clear();
  }
  tape_.memory().empty_cache();
  l.reward_input = tape::cat(l.query, l.response, 1);
  l.lengths = first_padding(l.response);
}

/// The update's rows, as indices pick them.
void PpoLoop::take_rows(Experience& e) {
  PpoVariables& l = variables(e);
  const std::int64_t rows = context_.micro_batch;
  const tape::ComponentScope component(tape_, Component::temporaries);
  l.micro_advantages = rows_of(l.advantages, rows);
  l.micro_responses = rows_of(l.all_responses, rows);
  l.micro_sequences = rows_of(l.sequences, rows);
  l.micro_logprobs = rows_of(l.all_logprobs, rows);
  l.micro_returns = rows_of(l.returns, rows);
  l.micro_values = rows_of(l.all_values, rows);
}

/// The wrapper's first half: the value model's body and head.
void PpoLoop::update_values(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::ComponentScope component(tape_, Component::activations);
  make_inputs(l.body, l.micro_sequences);
  store_.begin_micro_batch(completes_gradients(l));
  l.next_values = model().forward(input_of(l.body, true));
}

/// Its second half: the policy. Only now does what the last micro-batch's call returned go.
void PpoLoop::update_logits(Experience& e) {
  PpoVariables& l = variables(e);
  const tape::ComponentScope component(tape_, Component::activations);
  PpoVariables::Outputs outputs;
  outputs.ids = l.body.ids;
  outputs.mask = l.body.mask;
  outputs.positions = l.body.positions;
  outputs.logits = model().forward(input_of(outputs, true));
  tape::drop(outputs.ids, outputs.positions, outputs.mask);
  l.body.clear();
  l.policy.clear();
  l.policy = std::move(outputs);
  l.new_values = std::move(l.next_values);
}

void PpoLoop::make_experience(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  make_ppo_experience(variables(e), tape_);
}

void PpoLoop::form_loss(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  make_ppo_loss(variables(e), e.prompt);
}

void PpoLoop::backward(Experience& e) {
  PpoVariables& l = variables(e);
  store_.begin_micro_batch(completes_gradients(l));
  {
    Tensor part = tape::div_scalar(l.loss);
    store_.backward(part);
  }
  empty_after_micro_batch();
}

/// The policy's loss reaches the value model too.
void PpoLoop::end_values_backward(Experience& /*e*/) {
  store_.end_joint_backward();
}

void PpoLoop::step(Experience& e) {
  static_cast<void>(variables(e));
  store_.update();
}

/// Micro-batches of an optimizer step.
std::int64_t PpoLoop::together() const {
  return std::max<std::int64_t>(context_.mini_batch / context_.micro_batch, 1);
}

/// Whether the running micro-batch is the last of its optimizer step.
bool PpoLoop::completes_gradients(const PpoVariables& l) const {
  return (l.micro_batches + 1) % together() == 0;
}

/// Statistics after the optimizer's step; at the end of a mini-batch what the update held goes.
void PpoLoop::end_micro_batch(Experience& e) {
  PpoVariables& l = variables(e);
  make_ppo_statistics(l, tape_);
  if (++l.micro_batches % together() != 0) return;
  l.policy.clear();
  tape::drop(l.new_values, l.logits, l.difference, l.ratio, l.policy_losses, l.clipped_losses, l.loss,
             l.distribution, l.entropy, l.micro_returns, l.micro_advantages, l.micro_values,
             l.micro_responses, l.micro_sequences, l.micro_logprobs);
  l.variables.clear();
  tape_.memory().empty_cache();
}

void PpoLoop::end_update(Experience& e) {
  PpoVariables& l = variables(e);
  tape::drop(l.sequences, l.all_responses, l.all_logprobs, l.all_ref_logprobs, l.all_values, l.advantages,
             l.returns, l.padding, l.padding_after);
  l.kept.clear();
  tape_.memory().empty_cache();
}

namespace {

using trainer::run_call;

constexpr unsigned kUpdated = kWeights | kOptimizer | kMasterWeights;

constexpr LoopCall kCalls[] = {
    {.name = "take_queries", .run = run_call<&PpoLoop::take_queries>},
    {.name = "generate", .work = ModelWork::generate, .parts = kWeights, .after = {"take_queries"}},
    {.name = "begin_chunk", .run = run_call<&PpoLoop::begin_chunk>, .after = {"generate"}},
    {.name = "score_reference",
     .run = run_call<&PpoLoop::score_reference>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"begin_chunk"}},
    {.name = "reference_logprobs",
     .run = run_call<&PpoLoop::reference_logprobs>,
     .after = {"score_reference"}},
    {.name = "score_values",
     .run = run_call<&PpoLoop::score_values>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"begin_chunk"}},
    {.name = "score_rewards",
     .run = run_call<&PpoLoop::score_rewards>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"reference_logprobs", "score_values"}},
    {.name = "make_experience", .run = run_call<&PpoLoop::make_experience>, .after = {"score_rewards"}},
    {.name = "take_rows", .run = run_call<&PpoLoop::take_rows>, .after = {"make_experience"}},
    {.name = "update_values",
     .run = run_call<&PpoLoop::update_values>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"take_rows"}},
    {.name = "update_logits",
     .run = run_call<&PpoLoop::update_logits>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"update_values"}},
    {.name = "form_loss", .run = run_call<&PpoLoop::form_loss>, .after = {"update_logits"}},
    {.name = "backward", .run = run_call<&PpoLoop::backward>, .parts = kWeights, .after = {"form_loss"}},
    {.name = "end_values_backward", .run = run_call<&PpoLoop::end_values_backward>, .after = {"backward"}},
    {.name = "step",
     .run = run_call<&PpoLoop::step>,
     .parts = kUpdated,
     .after = {"backward", "build_optimizer"}},
    {.name = "end_micro_batch", .run = run_call<&PpoLoop::end_micro_batch>, .after = {"backward"}},
    {.name = "end_update", .run = run_call<&PpoLoop::end_update>, .after = {"make_experience"}},
};

}  // namespace

const LoopKind kPpoLoop = {.name = "trl_ppo", .make = trainer::make_own<PpoLoop>, .calls = kCalls};

}  // namespace headroom::trl
