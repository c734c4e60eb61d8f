#include "simulator/job/names.h"

#include <array>

namespace headroom {
namespace {

template <typename Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Algorithm, 5> kAlgorithm = {{{Algorithm::ppo, "ppo"},
                                             {Algorithm::grpo, "grpo"},
                                             {Algorithm::sft, "sft"},
                                             {Algorithm::reward_model, "reward_model"},
                                             {Algorithm::dpo, "dpo"}}};

constexpr Names<EngineKind, 4> kEngineKind = {{{EngineKind::transformers, "transformers"},
                                               {EngineKind::vllm, "vllm"},
                                               {EngineKind::sglang, "sglang"},
                                               {EngineKind::hybrid, "hybrid"}}};

constexpr Names<WeightExport, 4> kWeightExport = {{{WeightExport::per_tensor, "per_tensor"},
                                                   {WeightExport::sharded_state_dict, "sharded_state_dict"},
                                                   {WeightExport::full_parameters, "full_parameters"},
                                                   {WeightExport::layers, "layers"}}};

constexpr Names<ShardingKind, 12> kShardingKind = {{{ShardingKind::none, "none"},
                                                   {ShardingKind::data_parallel, "data_parallel"},
                                                   {ShardingKind::fsdp1, "fsdp1"},
                                                   {ShardingKind::fsdp2, "fsdp2"},
                                                   {ShardingKind::zero0, "zero0"},
                                                   {ShardingKind::zero1, "zero1"},
                                                   {ShardingKind::zero2, "zero2"},
                                                   {ShardingKind::zero3, "zero3"},
                                                   {ShardingKind::low_level_zero1, "low_level_zero1"},
                                                   {ShardingKind::low_level_zero2, "low_level_zero2"},
                                                   {ShardingKind::gemini, "gemini"},
                                                   {ShardingKind::megatron, "megatron"}}};

constexpr Names<GeminiPlacement, 3> kGeminiPlacement = {{{GeminiPlacement::resident, "resident"},
                                                         {GeminiPlacement::fixed, "fixed"},
                                                         {GeminiPlacement::host, "host"}}};

constexpr Names<MegatronLayers, 2> kMegatronLayers = {
    {{MegatronLayers::transformer_engine, "transformer_engine"}, {MegatronLayers::local, "local"}}};

constexpr Names<MegatronDispatcher, 3> kMegatronDispatcher = {
    {{MegatronDispatcher::all_to_all, "all_to_all"},
     {MegatronDispatcher::all_gather, "all_gather"},
     {MegatronDispatcher::flex, "flex"}}};

constexpr Names<RecomputeKind, 3> kRecomputeKind = {
    {{RecomputeKind::none, "none"}, {RecomputeKind::full, "full"}, {RecomputeKind::selective, "selective"}}};

constexpr Names<MetaRanks, 3> kMetaRanks = {
    {{MetaRanks::none, "none"}, {MetaRanks::others, "others"}, {MetaRanks::all, "all"}}};
constexpr Names<OptimizerKind, 2> kOptimizerKind = {
    {{OptimizerKind::adamw, "adamw"}, {OptimizerKind::sgd, "sgd"}}};

constexpr Names<OptimizerImplementation, 6> kOptimizerImplementation = {
    {{OptimizerImplementation::foreach_, "foreach"},
     {OptimizerImplementation::fused, "fused"},
     {OptimizerImplementation::loop, "loop"},
     {OptimizerImplementation::apex, "apex"},
     {OptimizerImplementation::cpu, "cpu"},
     {OptimizerImplementation::eight_bit, "eight_bit"}}};

constexpr Names<TokenLogprob, 6> kTokenLogprob = {
    {{TokenLogprob::log_softmax, "log_softmax"},
     {TokenLogprob::cross_entropy, "cross_entropy"},
     {TokenLogprob::logsumexp, "logsumexp"},
     {TokenLogprob::flash_cross_entropy, "flash_cross_entropy"},
     {TokenLogprob::selective_log_softmax, "selective_log_softmax"},
     {TokenLogprob::fused_linear, "fused_linear"}}};

constexpr Names<LogitsEnd, 3> kLogitsEnd = {
    {{LogitsEnd::backward, "backward"}, {LogitsEnd::step, "step"}, {LogitsEnd::next, "next"}}};

constexpr Names<Entropy, 3> kEntropy = {
    {{Entropy::none, "none"}, {Entropy::forward, "forward"}, {Entropy::backward, "backward"}}};

constexpr Names<AttentionImplementation, 5> kAttention = {
    {{AttentionImplementation::sdpa, "sdpa"},
     {AttentionImplementation::flash, "flash"},
     {AttentionImplementation::eager, "eager"},
     {AttentionImplementation::flash_varlen, "flash_varlen"},
     {AttentionImplementation::transformer_engine, "transformer_engine"}}};

constexpr Names<AttentionKernel, 5> kAttentionKernel = {{{AttentionKernel::by_gpu, "by_gpu"},
                                                         {AttentionKernel::cudnn, "cudnn"},
                                                         {AttentionKernel::flash, "flash"},
                                                         {AttentionKernel::efficient, "efficient"},
                                                         {AttentionKernel::math, "math"}}};

constexpr Names<HeadKind, 4> kHeadKind = {{{HeadKind::language_model, "language_model"},
                                           {HeadKind::scalar, "scalar"},
                                           {HeadKind::sequence_classification, "sequence_classification"},
                                           {HeadKind::token_classification, "token_classification"}}};

constexpr Names<Verb, 28> kVerb = {{{Verb::join_group, "join_group"},
                                    {Verb::take_prompts, "take_prompts"},
                                    {Verb::drop_prompts, "drop_prompts"},
                                    {Verb::take_rewards, "take_rewards"},
                                    {Verb::end_step, "end_step"},
                                    {Verb::build, "build"},
                                    {Verb::build_optimizer, "build_optimizer"},
                                    {Verb::create_states, "create_states"},
                                    {Verb::load, "load"},
                                    {Verb::offload, "offload"},
                                    {Verb::release, "release"},
                                    {Verb::empty_cache, "empty_cache"},
                                    {Verb::forward, "forward"},
                                    {Verb::experience, "experience"},
                                    {Verb::train, "train"},
                                    {Verb::call, "call"},
                                    {Verb::reset_peaks, "reset_peaks"},
                                    {Verb::generate, "generate"},
                                    {Verb::start_engine, "start_engine"},
                                    {Verb::export_weights, "export_weights"},
                                    {Verb::wake_weights, "wake_weights"},
                                    {Verb::wake_kv, "wake_kv"},
                                    {Verb::sleep, "sleep"},
                                    {Verb::score, "score"},
                                    {Verb::sync_weights, "sync_weights"},
                                    {Verb::save, "save"},
                                    {Verb::expandable_on, "expandable_on"},
                                    {Verb::expandable_off, "expandable_off"}}};

constexpr Names<Output, 3> kOutput = {
    {{Output::logprobs, "logprobs"}, {Output::values, "values"}, {Output::rewards, "rewards"}}};

constexpr Names<DType, 11> kDType = {{{DType::fp32, "fp32"},
                                      {DType::fp16, "fp16"},
                                      {DType::bf16, "bf16"},
                                      {DType::fp8, "fp8"},
                                      {DType::int8, "int8"},
                                      {DType::uint8, "uint8"},
                                      {DType::int64, "int64"},
                                      {DType::int32, "int32"},
                                      {DType::boolean, "bool"},
                                      {DType::nf4, "nf4"},
                                      {DType::fp64, "fp64"}}};

/// PhaseKind's words are those of `name(PhaseKind)`.
const auto kPhaseKind = [] {
  constexpr std::size_t kCount = static_cast<std::size_t>(PhaseKind::empty_cache) + 1;
  Names<PhaseKind, kCount> names;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto kind = static_cast<PhaseKind>(i);
    names[i] = {kind, name(kind)};
  }
  return names;
}();

}  // namespace

#define HEADROOM_ENUM_NAMES(Enum, table)                            \
  template <>                                                       \
  std::span<const std::pair<Enum, std::string_view>> enum_names() { \
    return table;                                                   \
  }

HEADROOM_ENUM_NAMES(Algorithm, kAlgorithm)
HEADROOM_ENUM_NAMES(EngineKind, kEngineKind)
HEADROOM_ENUM_NAMES(WeightExport, kWeightExport)
HEADROOM_ENUM_NAMES(ShardingKind, kShardingKind)
HEADROOM_ENUM_NAMES(GeminiPlacement, kGeminiPlacement)
HEADROOM_ENUM_NAMES(MegatronLayers, kMegatronLayers)
HEADROOM_ENUM_NAMES(MegatronDispatcher, kMegatronDispatcher)
HEADROOM_ENUM_NAMES(RecomputeKind, kRecomputeKind)
HEADROOM_ENUM_NAMES(MetaRanks, kMetaRanks)
HEADROOM_ENUM_NAMES(OptimizerKind, kOptimizerKind)
HEADROOM_ENUM_NAMES(OptimizerImplementation, kOptimizerImplementation)
HEADROOM_ENUM_NAMES(TokenLogprob, kTokenLogprob)
HEADROOM_ENUM_NAMES(LogitsEnd, kLogitsEnd)
HEADROOM_ENUM_NAMES(Entropy, kEntropy)
HEADROOM_ENUM_NAMES(AttentionImplementation, kAttention)
HEADROOM_ENUM_NAMES(AttentionKernel, kAttentionKernel)
HEADROOM_ENUM_NAMES(HeadKind, kHeadKind)
HEADROOM_ENUM_NAMES(Verb, kVerb)
HEADROOM_ENUM_NAMES(Output, kOutput)
HEADROOM_ENUM_NAMES(DType, kDType)
HEADROOM_ENUM_NAMES(PhaseKind, kPhaseKind)

#undef HEADROOM_ENUM_NAMES

}  // namespace headroom
