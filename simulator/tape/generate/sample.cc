#include "simulator/tape/generate/sample.h"

#include <algorithm>

#include "simulator/memory/growing_steps.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kTokens = operation_name("generate"), kPositions = operation_name("position_ids"),
                    kCompare = operation_name("aten::compare"), kIsin = operation_name("aten::isin"),
                    kMin = operation_name("aten::min"), kMax = operation_name("aten::max"),
                    kArgmax = operation_name("aten::argmax"), kSumRows = operation_name("aten::sum"),
                    kMultinomial = operation_name("aten::multinomial"),
                    kArange = operation_name("aten::arange"), kStop = operation_name("stopping_criteria"),
                    kMask = operation_name("attention_mask"), kPeers = operation_name("this_peer_finished"),
                    kTopK = operation_name("aten::topk"), kCast = operation_name("aten::_to_copy"), kWhere = operation_name("aten::where");

/// torch.isin against one token: a comparison table and its reduction go, the answer stays.
Tensor isin(Tape& tape, const Shape& shape) {
  Tensor out = tape.empty(shape, DType::boolean, kIsin);
  Tensor equal = tape.empty(shape, DType::boolean, kIsin);
  Tensor any = tape.empty(shape, DType::boolean, kIsin);
  drop(any, equal);
  return out;
}

/// The state of GenerationMixin._sample.
class Sampler {
 public:
  Sampler(Model& model, const Tensor& prompts, const SampleOptions& options)
      : model_(model),
        tape_(model.tape()),
        options_(options),
        batch_(prompts.size(0)),
        prompt_(prompts.size(1)),
        vocabulary_(model.decoder().vocabulary),
        stride_(token_stride(options.new_tokens)),
        ids_(prompts) {}

  Tensor run() {
    caller_mask_ = options_.mask.defined() ? options_.mask : fill(tape_, {batch_, prompt_}, DType::int64);
    mask_ = caller_mask_;
    special_tokens();
    position_ids();
    unfinished_ = integers({batch_}, kTokens);
    for (std::int64_t i = 0; i < options_.new_tokens; ++i) {
      synchronize();
      token(i);
      if (i + 1 == kBeforeLeaps) i = leap(i);
      if (i + 1 >= kBeforeLeaps) i = stride(i);
    }
    synchronize();
    return finish();
  }

 private:
  static constexpr std::int64_t kBeforeLeaps = 3;   ///< prefill, and tokens that find what one left
  static constexpr std::int64_t kAfterLeaps = 2;    ///< the last finds what one left, and has the peaks
  static constexpr std::int64_t kMostLeaps = 16;    ///< seconds grow along a gently bent line; bytes along a straight one
  static constexpr std::int64_t kShortestLeap = 3;  ///< tokens

  /// Where only sums count, few of the tokens after number `done` stand for nearly all that remain. Returns
  /// the number of the last token that is over.
  std::int64_t leap(std::int64_t done) {
    auto* steps = dynamic_cast<GrowingSteps*>(tape_.memory().repetition());
    const bool even = options_.even || (!options_.forward && model_.hooks == nullptr);
    if (steps == nullptr || !steps->only_sums() || !even || !cache_.keeps_all())
      return done;
    const std::int64_t last = options_.new_tokens - 1 - kAfterLeaps;
    const std::int64_t leaps = tape_.wants_operations() ? kMostLeaps : 1;
    const std::int64_t longest = std::max(kShortestLeap, ceil_div(last - done, leaps) | 1);
    while (last - done >= kShortestLeap) {
      // An odd number of tokens has one in its middle.
      const std::int64_t tokens = std::min(longest, (last - done - 1) | 1), before = tokens / 2;
      skip(steps, before, done + before);
      steps->stand_for(tokens);
      synchronize();
      token(done + before + 1);
      done += tokens;
      skip(steps, before, done);
    }
    return done;
  }

  /// Of very many tokens each that is run stands for its stride; the last are run in any case.
  std::int64_t stride(std::int64_t done) {
    if (stride_ == 1) return done;
    const std::int64_t left = options_.new_tokens - 1 - kAfterLeaps - done;
    const std::int64_t over = std::clamp<std::int64_t>(left, 0, stride_ - 1);
    auto* steps = dynamic_cast<GrowingSteps*>(tape_.memory().repetition());
    if (over > 0) skip(steps, over, done + over);
    if (steps != nullptr) steps->stand_for(over == stride_ - 1 ? stride_ : 1);
    return done + over;
  }

  /// What is kept becomes that of `tokens` more, of which number `last` is the last.
  void skip(GrowingSteps* steps, std::int64_t tokens, std::int64_t last) {
    if (steps != nullptr) steps->stand_for(0);
    for (std::size_t layer = 0; layer < cache_.layers.size(); ++layer) cache_.grow(tape_, layer, tokens);
    if (options_.keeps_last_output) hold({});
    if (options_.output != nullptr) {
      const ComponentScope component(tape_, Component::logits);
      for (std::int64_t i = 0; i < tokens; ++i)
        options_.output->scores.push_back(tape_.empty({batch_, vocabulary_}, DType::fp32, kCast));
    }
    ids_ = integers({batch_, prompt_ + last + 1}, kTokens);
    if (steps != nullptr) steps->stand_for(1);
  }

  Tensor integers(const Shape& shape, std::uint16_t name) { return tape_.empty(shape, DType::int64, name); }
  Tensor flags(const Shape& shape, std::uint16_t name) { return tape_.empty(shape, DType::boolean, name); }

  /// generate() prepares the special tokens on the device and checks the prompts.
  void special_tokens() {
    if (options_.begin_token) begin_ = integers({1}, kTokens);
    if (options_.end_token) end_ = integers({1}, kTokens);
    padding_ = integers({1}, kTokens);
    Tensor any;
    if (options_.end_token) {
      Tensor found = isin(tape_, {1});
      any = flags({}, kTokens);
      drop(found, any);
      Tensor negative = flags({1}, kTokens);
      any = flags({}, kTokens);
      drop(negative, any);
    }
    if (batch_ == 1) return;  // a single sequence is never padded
    Tensor last_is_padding = flags({batch_}, kTokens);
    any = flags({}, kTokens);
    drop(last_is_padding, any);
  }

  void position_ids() {
    const Shape shape{batch_, prompt_};
    Tensor counted = cumsum(mask_);
    Tensor positions = plain(kPositions, DType::int64, std::move(counted));
    Tensor masked = flags(shape, kPositions);
    first_positions_ = integers(shape, kPositions);
    drop(masked, positions);
    positions_ = first_positions_;
  }

  void synchronize() {
    if (options_.synchronized) const Tensor peers = tape_.empty({}, DType::fp32, kPeers);
  }

  void token(std::int64_t index) {
    Tensor logits = forward(index);
    extend(prompt_ + index + 1);
    {
      const ComponentScope component(tape_, Component::logits);
      Tensor last = select(logits, 1, logits.size(1) - 1);
      next_logits_ = tape_.empty({batch_, vocabulary_}, DType::fp32, kCast);
      if (tape_.wants_operations()) Work(tape_, OperationKind::copy, kCast).in(last).out(next_logits_).run();
      last.reset();
      Tensor scores = next_logits_;
      if (options_.length_processors) {
        scores = at_least(std::move(scores), true);
        scores = at_least(std::move(scores), false);
      }
      if (options_.temperature) scores = div_scalar(std::move(scores));
      if (options_.top_k) scores = highest_of(std::move(scores));
      if (options_.output != nullptr) options_.output->scores.push_back(scores);
      scores_ = std::move(scores);
      if (!options_.greedy) probabilities_ = softmax(scores_, DType::fp32);
    }
    next_tokens_ = options_.greedy ? highest() : multinomial();
    if (options_.end_token) pad();
    ids_ = cat(ids_, unsqueeze(next_tokens_, 1), -1);
    stop();
    logits.reset();
  }

  Tensor call(const ModelInput& input) {
    return options_.forward ? options_.forward(input) : model_.forward(input);
  }

  /// Where the first parameter lies, which FSDP may have gathered on the device.
  bool model_on_host() const {
    return options_.weights_on_host && (*model_.parameters().front().tensor)->storage->bytes == 0;
  }

  /// What generate prepares is sent to the model's device; FSDP's root brings it back.
  Tensor call_through_host(bool first) {
    const Shape tokens{batch_, first ? prompt_ : 1};
    {
      Tensor ids = integers(tokens, kTokens);
      Tensor positions;
      if (!first) positions = integers(tokens, kPositions);
      drop(positions, ids);
    }
    Tensor ids = integers(tokens, kTokens);
    Tensor positions = integers(tokens, kPositions);
    Tensor mask = integers({batch_, mask_.size(1)}, kMask);
    ModelInput input{ids, mask, positions, &cache_, 1, options_.padded};
    Tensor logits = call(input);
    input = {};
    drop(ids, positions, mask);
    return logits;
  }

  Tensor forward(std::int64_t index) {
    Tensor logits = run(index);
    if (options_.keeps_last_output) hold(logits);
    return logits;
  }

  /// What a forward returned lives until the next one's output takes its name.
  void hold(const Tensor& logits) {
    held_.clear();
    if (logits.defined()) held_.push_back(logits);
    for (const KvCache::LayerCache& layer : cache_.layers) {
      held_.push_back(layer.keys);
      held_.push_back(layer.values);
    }
  }

  Tensor run(std::int64_t index) {
    if (model_on_host()) return call_through_host(index == 0);
    ModelInput input;
    if (index == 0) {
      prefill_positions_ = integers({batch_, prompt_}, kPositions);
      input = {ids_, mask_, prefill_positions_, &cache_, options_.whole_logits ? 0 : 1, options_.padded};
      Tensor logits = call(input);
      input = {};
      prefill_positions_.reset();
      return logits;
    }
    Tensor ids = integers({batch_, 1}, kTokens);
    Tensor positions = integers({batch_, 1}, kPositions);
    step_ids_ = std::move(ids);
    step_positions_ = std::move(positions);
    step_mask_ = mask_;
    input = {step_ids_, step_mask_, step_positions_, &cache_, 1, options_.padded};
    return call(input);
  }

  /// _update_model_kwargs_for_generation: position ids and mask, one column longer.
  void extend(std::int64_t columns) {
    Tensor one = integers({1}, kPositions);
    Tensor next = integers({batch_, 1}, kPositions);
    one.reset();
    Tensor shifted = integers({batch_, 1}, kPositions);
    next.reset();
    Tensor positions = integers({batch_, columns}, kPositions);
    shifted.reset();
    Tensor column = fill(tape_, {batch_, 1}, mask_.dtype());
    Tensor mask = tape_.empty({batch_, columns}, mask_.dtype(), kMask);
    column.reset();
    mask_ = std::move(mask);
    positions_ = std::move(positions);
  }

  /// A minimum-length processor: scores without the end token. The two of them differ in which they make
  /// first, the table of tokens or the copy of scores.
  Tensor at_least(Arg scores, bool table_first) {
    const Shape vocabulary{vocabulary_};
    Tensor table, copy;
    if (table_first) table = integers(vocabulary, kArange);
    if (!table_first) copy = clone(*scores);
    if (!table_first) table = integers(vocabulary, kArange);
    Tensor is_end = isin(tape_, vocabulary);
    if (table_first) copy = clone(*scores);
    Tensor infinity = tape_.empty({}, DType::fp32, kCompare);
    Tensor out = elementwise(kWhere, DType::fp32, {&copy, &is_end});
    infinity.reset();
    drop(copy, table, is_end);
    done(scores);
    return out;
  }

  /// The k highest scores tell which others become minus infinity.
  Tensor highest_of(Arg scores) {
    constexpr std::int64_t kHighest = 50;
    Tensor out;
    {
      const Tensor values = tape_.empty({batch_, kHighest}, DType::fp32, kTopK);
      const Tensor places = integers({batch_, kHighest}, kTopK);
      const Tensor lower = flags({batch_, vocabulary_}, kCompare);
      out = elementwise(kWhere, DType::fp32, {&*scores, &lower});
    }
    done(scores);
    return out;
  }

  Tensor highest() { return reduce(kArgmax, DType::int64, 16, scores_, 2u, false); }

  Tensor multinomial() {
    const Tensor& p = probabilities_;
    Tensor out = integers({batch_, 1}, kMultinomial);
    Tensor least = reduce(kMin, DType::fp32, 4, p, 3u, false);
    Tensor non_negative = flags({}, kMultinomial);
    Tensor most = reduce(kMax, DType::fp32, 4, p, 3u, false);
    Tensor finite = flags({}, kMultinomial);
    Tensor valid = flags({}, kMultinomial);
    drop(finite, most, non_negative, least);
    Tensor sums = reduce(kSumRows, DType::fp32, 4, p, 2u, false);
    Tensor zero = flags({batch_}, kMultinomial);
    Tensor any_zero = flags({}, kMultinomial);
    drop(zero, sums);
    flags({}, kMultinomial).reset();
    Tensor noise = tape_.empty(p.shape(), DType::fp32, kMultinomial);
    const SplitReduction split = split_reduction(tape_.traits(), p.shape(), 2u, 16);
    Tensor buffer, semaphores;
    if (split.buffer > 0) {
      buffer = tape_.empty({split.buffer}, DType::uint8, kArgmax);
      semaphores = tape_.empty({split.semaphores}, DType::uint8, kArgmax);
    }
    if (tape_.wants_operations())
      Work(tape_, OperationKind::sample, kMultinomial).in(p).in(noise).out(out).run();
    drop(semaphores, buffer, noise, any_zero, valid);
    return squeeze(std::move(out), 1);
  }

  /// next_tokens * unfinished + padding * (1 - unfinished).
  void pad() {
    Tensor kept = integers({batch_}, kTokens);
    Tensor done_flags = integers({batch_}, kTokens);
    Tensor padded = integers({batch_}, kTokens);
    done_flags.reset();
    Tensor chosen = integers({batch_}, kTokens);
    drop(kept, padded);
    next_tokens_ = std::move(chosen);
  }

  void stop() {
    const Shape rows{batch_};
    Tensor done_rows = flags(rows, kStop);
    Tensor by_length = flags(rows, kStop);
    Tensor joined = flags(rows, kStop);
    drop(by_length, done_rows);
    Tensor all = std::move(joined);
    if (options_.end_token) {
      Tensor ended = isin(tape_, rows);
      Tensor by_end = flags(rows, kStop);
      ended.reset();
      joined = std::move(all);
      all = flags(rows, kStop);
      drop(by_end, joined);
    }
    Tensor open = flags(rows, kStop);
    all.reset();
    Tensor unfinished = integers(rows, kStop);
    open.reset();
    unfinished_ = std::move(unfinished);
    Tensor highest = integers({}, kStop);
    Tensor none = flags({}, kStop);
    drop(highest, none);
  }

  Tensor finish() {
    drop(mask_, positions_, unfinished_, step_ids_, step_positions_, step_mask_, next_logits_, scores_,
         probabilities_, next_tokens_);
    held_.clear();
    drop(begin_, padding_, first_positions_);
    if (options_.output != nullptr)
      options_.output->cache = std::move(cache_);
    else
      cache_.clear();
    drop(end_, caller_mask_);
    return std::move(ids_);
  }

  Model& model_;
  Tape& tape_;
  SampleOptions options_;
  std::int64_t batch_, prompt_, vocabulary_, stride_;
  Tensor ids_, caller_mask_, mask_, begin_, end_, padding_;
  Tensor first_positions_, positions_, unfinished_, prefill_positions_;
  Tensor step_ids_, step_positions_, step_mask_;
  Tensor next_logits_, scores_, probabilities_, next_tokens_;
  KvCache cache_;
  std::vector<Tensor> held_;  ///< the last forward's output
};

}  // namespace

std::int64_t token_stride(std::int64_t new_tokens) {
  constexpr std::int64_t kOneByOne = 4096;
  return std::max<std::int64_t>(1, ceil_div(new_tokens, kOneByOne));
}

Tensor sample(Model& model, const Tensor& prompts, const SampleOptions& options) {
  Sampler sampler(model, prompts, options);
  return sampler.run();
}

}  // namespace headroom::tape
