#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"

namespace headroom {

/// Appends a model's tensors in the order in which Transformers registers them. Names are relative to the
/// current prefix; a linear called `q_proj` makes `q_proj.weight` and, when it has one, `q_proj.bias`.
class TensorWriter {
 public:
  explicit TensorWriter(Architecture& model) : model_(model) {}

  const Architecture& model() const { return model_; }
  const Decoder& decoder() const { return model_.decoder; }

  void embedding(std::string_view name, std::int64_t rows, std::int64_t columns,
                 Split split = Split::vocabulary);
  void linear(std::string_view name, std::int64_t out, std::int64_t in, Split split, bool bias = false);
  /// GPT-2's Conv1D: a linear stored transposed.
  void conv1d(std::string_view name, std::int64_t in, std::int64_t out, Split split);
  /// Nothing when the norm is absent.
  void norm(std::string_view name, const Norm& norm);
  /// A parameter with its full name, without `.weight`.
  void parameter(std::string_view name, std::vector<std::int64_t> shape, TensorRole role = TensorRole::other,
                 Split split = Split::replicated);
  /// Matrices of all experts in one tensor: [experts, out, in], or [experts, in, out] when transposed.
  void experts(std::string_view name, std::vector<std::int64_t> shape, Split split, bool transposed = false);
  void buffer(std::string_view name, std::vector<std::int64_t> shape, DType dtype);

  /// The head that the model was asked for: `lm_head` as given, tied to `embedding` when the decoder says so;
  /// or the scalar or classification head over `features` inputs. `tokens` names the token-classification
  /// head.
  void head(std::string_view name, std::string_view embedding, std::int64_t features,
            std::string_view tokens = "score");

  /// Calls `write(layer)` for every decoder layer with the prefix `PREFIX.INDEX.`.
  template <typename Write>
  void layers(std::string_view prefix, Write write) {
    for (const LayerGroup& group : decoder().groups) {
      for (std::int64_t i = group.first; i < group.first + group.count; ++i) {
        begin_layer(prefix, i);
        write(group.layer);
      }
    }
    end_layers();
  }

  /// Calls `write()` for every block of a vision tower with the prefix `PREFIX.INDEX.`.
  template <typename Write>
  void vision_blocks(std::string_view prefix, std::int64_t count, Write write) {
    for (std::int64_t i = 0; i < count; ++i) {
      begin_layer(prefix, i);
      place_ = Place::vision;
      write();
    }
    end_layers();
    place_ = Place::vision;
  }

  /// Where following tensors live; `layers` and `head` set it themselves, what comes before the layers is
  /// embedding and what comes after is final norm.
  void place(Place place) { place_ = place; }

 private:
  Tensor& add(std::string_view name, std::string_view suffix, std::vector<std::int64_t> shape,
              TensorRole role, Split split);
  void begin_layer(std::string_view prefix, std::int64_t index);
  void end_layers();

  Architecture& model_;
  std::string prefix_;
  Place place_ = Place::embedding;
  std::int32_t layer_ = -1;
};

}  // namespace headroom
