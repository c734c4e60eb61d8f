#include "simulator/trainer/trl_ppo_role.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/generate/sample.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/token_logprob.h"
#include "simulator/trainer/trl_grpo_role.h"

namespace headroom::trainer {
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
void make_inputs(PpoLoop::Outputs& out, const Tensor& sequences) {
  out.mask = tape::plain(kCompare, DType::boolean, sequences);
  {
    Tensor counted = tape::cumsum(out.mask);
    Tensor ones = tape::to(out.mask, DType::int64);
    out.positions = tape::plain(kSub, DType::int64, std::move(counted), std::move(ones));
  }
  const Tensor absent = tape::plain(kCompare, DType::boolean, out.mask);
  out.ids = tape::masked_fill(sequences, absent);
}

tape::ModelInput input_of(PpoLoop::Outputs& outputs, bool cached) {
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

PpoLoop& TrlPpoRole::loop(Experience& e) {
  if (!e.ppo) e.ppo = std::make_shared<PpoLoop>();
  return *e.ppo;
}

std::optional<Status> TrlPpoRole::act(const Action& action, Experience& e) {
  PpoLoop& l = loop(e);
  // Of a call's results an underscore keeps the last one.
  tape::drop(l.ignored_score, l.ignored_logits);
  const bool policy = role().trained && role().head == HeadKind::language_model;
  switch (action.verb) {
    case Verb::take_prompts:
      policy ? take_prompts(e) : take_micro_batch(e);
      return Status{};
    case Verb::generate:
      generate_chunks(e);
      return Status{};
    case Verb::gather_logprobs: {
      const tape::ComponentScope component(tape_, Component::activations);
      if (!policy)
        reference_logprobs(e);
      else if (l.micro_sequences.defined())
        make_ppo_loss(l, e.prompt);
      else
        begin_chunk(e);
      return Status{};
    }
    case Verb::forward:
      score(e);
      return Status{};
    case Verb::experience: {
      const tape::GradMode no_grad(tape_, false);
      const tape::ComponentScope component(tape_, Component::temporaries);
      make_ppo_experience(l, tape_);
      return Status{};
    }
    case Verb::loss:
      policy ? update_logits(e) : update_values(e);
      return Status{};
    case Verb::backward: {
      Tensor part = tape::div_scalar(l.loss);
      store_.backward(part);
      return Status{};
    }
    case Verb::optimizer_step:
      store_.update();
      return Status{};
    case Verb::release:
      store_.release(kGradients);
      return Status{};
    case Verb::drop_outputs:
      end_update(e);
      return Status{};
    case Verb::end_step:
      tape::drop(l.sequences, l.all_responses, l.all_logprobs, l.all_ref_logprobs, l.all_values, l.advantages,
                 l.returns, l.padding, l.padding_after);
      l.kept.clear();
      tape_.memory().empty_cache();
      return Status{};
    default:
      return std::nullopt;
  }
}

void TrlPpoRole::take_prompts(Experience& e) {
  PpoLoop& l = loop(e);
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
void TrlPpoRole::generate_chunk(const Tensor& queries, std::vector<Tensor>& sequences,
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

void TrlPpoRole::generate_chunks(Experience& e) {
  PpoLoop& l = loop(e);
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
}

/// The chunk's views, and its log-probs out of generation's scores.
void TrlPpoRole::begin_chunk(Experience& e) {
  PpoLoop& l = loop(e);
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

void TrlPpoRole::score(Experience& e) {
  PpoLoop& l = loop(e);
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  if (role().head == HeadKind::language_model) {
    make_inputs(l.reference, l.sequence);
    l.reference.logits = model().forward(input_of(l.reference, true));
    tape::drop(l.reference.ids, l.reference.positions, l.reference.mask);
    return;
  }
  PpoLoop::Outputs outputs;
  const bool values = role().trained;
  make_inputs(outputs, values ? l.sequence : l.reward_input);
  Tensor all = model().forward(input_of(outputs, false));
  Tensor lengths = tape::add_scalar(first_padding(l.response));
  Tensor last;
  {
    const Tensor rows = tape_.empty({all.size(0)}, DType::int64, kIndex);
    last = tape_.empty({all.size(0)}, all.dtype(), kIndex);
  }
  l.ignored = std::move(lengths);
  if (values) {
    l.ignored_score = std::move(last);
    l.full_value = std::move(all);
    l.value = tape::slice(l.full_value, 1, e.prompt - 1, e.response);
  } else {
    l.reward = std::move(last);
    l.ignored_logits = std::move(all);
    end_chunk(l);
  }
}

/// The chunk is through: its parts wait for the others'.
void TrlPpoRole::end_chunk(PpoLoop& l) {
  l.responses.push_back(l.response);
  l.logprobs.push_back(l.logprob);
  l.ref_logprobs.push_back(l.ref_logprob);
  l.length_parts.push_back(l.lengths);
  l.reward_parts.push_back(l.reward);
  l.value_parts.push_back(l.value);
  l.chunk += l.query.size(0);
}

void TrlPpoRole::reference_logprobs(Experience& e) {
  PpoLoop& l = loop(e);
  const tape::GradMode no_grad(tape_, false);
  {
    Tensor logits = tape::slice(l.reference.logits, 1, e.prompt - 1, e.response);
    logits = tape::div_in_place(std::move(logits), l.reference.logits);
    l.ref_logprob = selective_log_softmax(logits, l.response);
    l.reference.clear();
  }
  tape_.memory().empty_cache();
  l.reward_input = tape::cat(l.query, l.response, 1);
  l.lengths = first_padding(l.response);
}

/// The update's rows, as indices pick them.
void TrlPpoRole::take_micro_batch(Experience& e) {
  PpoLoop& l = loop(e);
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
void TrlPpoRole::update_values(Experience& e) {
  PpoLoop& l = loop(e);
  const tape::ComponentScope component(tape_, Component::activations);
  make_inputs(l.body, l.micro_sequences);
  l.next_values = model().forward(input_of(l.body, true));
}

/// Its second half: the policy. Only now does what the last micro-batch's call returned go.
void TrlPpoRole::update_logits(Experience& e) {
  PpoLoop& l = loop(e);
  const tape::ComponentScope component(tape_, Component::activations);
  PpoLoop::Outputs outputs;
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

/// Statistics after the optimizer's step; at the end of a mini-batch what the update held goes.
void TrlPpoRole::end_update(Experience& e) {
  PpoLoop& l = loop(e);
  make_ppo_statistics(l, tape_);
  const std::int64_t together = std::max<std::int64_t>(context_.mini_batch / context_.micro_batch, 1);
  if (++l.micro_batches % together != 0) return;
  l.policy.clear();
  tape::drop(l.new_values, l.logits, l.difference, l.ratio, l.policy_losses, l.clipped_losses, l.loss,
             l.distribution, l.entropy, l.micro_returns, l.micro_advantages, l.micro_values,
             l.micro_responses, l.micro_sequences, l.micro_logprobs);
  l.variables.clear();
  tape_.memory().empty_cache();
}

}  // namespace headroom::trainer
