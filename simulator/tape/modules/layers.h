#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/operations/four_bit.h"

namespace headroom::tape {

/// Two thin linears beside a base linear, as PEFT adds them; fp32 over a bf16 base.
struct LoraPair {
  Tensor a;  ///< [rank, in]
  Tensor b;  ///< [out, rank]
  std::uint32_t module = 0;
  bool dropout = false;  ///< of what it is given, in training
  DType dtype = DType::fp32;  ///< as stored: what modules see of an adapter that is not gathered yet
};

/// torch.nn.Linear, with PEFT's adapter around it when there is one.
struct LinearLayer {
  Tensor weight;  ///< [out, in]; transposed: [in, out]
  Tensor bias;    ///< [out] or undefined
  std::unique_ptr<LoraPair> lora;
  std::unique_ptr<FourBitScales> scales;  ///< of a weight in four bits
  std::uint32_t module = 0;
  const Model* owner = nullptr;
  bool transposed = false;
  bool product = false;  ///< written x @ W.T + b
  /// Sequence parallelism: ranks whose tokens its input is gathered of, or its output is left to.
  std::int64_t gathers = 1, scatters = 1;

  void build(Model& model, const std::string& name, std::int64_t out, std::int64_t in, bool with_bias,
             int layer);
  Tensor operator()(Arg input) const;
  void register_weight(Model& model, const std::string& name, const Shape& shape, int layer);
  /// PEFT's Linear.forward: `result` of the base layer and the adapter's branch.
  Tensor adapted(const Tensor& input, Tensor result) const;
};

/// How a norm's code departs from its family's usual one.
enum class NormForm {
  standard,
  python,     ///< LayerNorm out of separate operators in fp32 (Cohere)
  late_cast,  ///< RMSNorm whose weight multiplies in fp32, the cast last (OLMo 2)
};

/// A norm as the family's Python code writes it: RMSNorm out of separate operators in fp32, or the fused
/// layer_norm kernel (on a cast to fp32 when it owns no weight, as OLMo's).
/// The form that a family's norms have.
NormForm norm_form(const DecoderForm& form);

struct NormLayer {
  Norm norm;
  NormForm form = NormForm::standard;
  Tensor weight, bias;
  std::uint32_t module = 0;
  const Model* owner = nullptr;

  void build(Model& model, const std::string& name, const Norm& norm, int layer);
  Tensor operator()(Arg input) const;
};

/// The activation functions of Transformers' ACT2FN by name.
Tensor activation(const std::string& name, Arg input);

}  // namespace headroom::tape
