#pragma once

namespace headroom {

/// Whose layers a Megatron-Core model is made of: TransformerEngine's, or Megatron's own ("local"), which
/// need neither TransformerEngine nor apex.
enum class MegatronLayers { transformer_engine, local };

}  // namespace headroom
