#include "planner/cli/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>
#include <utility>

#include "models/architecture/checkpoint.h"
#include "models/architecture/family.h"
#include "models/architecture/lora.h"
#include "models/architecture/read.h"
#include "models/kv_cache/kv_cache.h"
#include "models/presets/presets.h"
#include "planner/cli/output.h"
#include "planner/writers/columns.h"
#include "planner/writers/models.h"

namespace headroom::cli {
namespace {

constexpr std::array<std::pair<std::string_view, HeadKind>, 4> kHeads = {{
    {"language-model", HeadKind::language_model},
    {"scalar", HeadKind::scalar},
    {"sequence-classification", HeadKind::sequence_classification},
    {"token-classification", HeadKind::token_classification},
}};

tl::unexpected<Error> bad_flag(const char* flag, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = flag});
}

Result<ReadOptions> read_options(const Arguments& arguments) {
  ReadOptions options;
  if (const auto word = arguments.find("--head")) {
    for (const auto& [name, head] : kHeads)
      if (name == *word) options.head = head;
    if (!options.head)
      return bad_flag("--head",
                      "expected language-model, scalar, sequence-classification or token-classification, "
                      "found " +
                          *word);
  }
  HEADROOM_ASSIGN(options.labels, arguments.integer("--labels", 1, 1'000'000));
  return options;
}

Result<DType> kv_dtype(const Arguments& arguments, const Architecture& model) {
  const auto word = arguments.find("--kv-dtype");
  if (!word) return model.dtype;
  const auto dtype = parse_dtype(*word);
  if (!dtype) return bad_flag("--kv-dtype", "expected a dtype such as bf16 or fp8, found " + *word);
  return *dtype;
}

/// A path that is there, else the name of a public model.
Result<Architecture> find(const std::string& name, const ReadOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return read_architecture(name, options);
  if (name.ends_with(".json")) return fail(Error{.message = "no such file", .file = name, .key = {}});
  HEADROOM_ASSIGN(const Document config, find_preset(name));
  return make_architecture(config, name, options);
}

Status adapt(Architecture& model, const Arguments& arguments) {
  if (!arguments.all("--freeze").empty()) HEADROOM_TRY(freeze(model, arguments.all("--freeze")));
  HEADROOM_ASSIGN(const auto rank, arguments.integer("--lora-rank", 1, 1 << 20));
  const bool details = arguments.has("--lora-target") || arguments.has("--lora-save");
  if (!rank && details) return bad_flag("--lora-rank", "expected the rank of the adapters, found none");
  if (!rank) return {};
  return add_lora(model, {.rank = *rank,
                          .targets = arguments.all("--lora-target"),
                          .saved_modules = arguments.all("--lora-save")});
}

void warn_of_differences(const std::string& name, const Architecture& model, const Arguments& arguments,
                         Streams& streams) {
  std::error_code ignored;
  if (arguments.common.quiet || !std::filesystem::is_directory(name, ignored)) return;
  const auto checkpoint = read_checkpoint(name);
  if (!checkpoint) {
    streams.err << "headroom: warning: " << checkpoint.error().text() << "\n";
  } else if (*checkpoint) {
    for (const std::string& difference : compare_checkpoint(model, **checkpoint))
      streams.err << "headroom: warning: " << difference << "\n";
  }
}

int list(const Arguments& arguments, Streams& streams) {
  if (arguments.common.json) {
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, writers::model_list_json(), streams), streams);
    if (*arguments.common.json == "-") return kDone;
  }
  streams.out << writers::model_list_table();
  return kDone;
}

}  // namespace

Command models_command() {
  return {
      .name = "models",
      .summary = "what is known of models: weights, tensor by tensor, and their KV cache",
      .options = {{"MODEL", "", "public name, directory or config.json; none: lists what is known"},
                  {"--head", "KIND", "language-model, scalar, sequence-classification, token-classification"},
                  {"--labels", "N", "rows of a classification head; default: the config's"},
                  {"--lora-rank", "N", "adds adapters of this rank and freezes the rest"},
                  {"--lora-target", "MODULE", "a target module, or all-linear; default: PEFT's of the family",
                   false, true},
                  {"--lora-save", "MODULE", "a module trained whole beside the adapters", false, true},
                  {"--freeze", "MODULE", "a module that is not trained", false, true},
                  {"--kv-dtype", "DTYPE", "of the KV cache; default: the model's"},
                  {"--tensor-parallel", "N", "ranks that share the KV heads; default 1"}},
      .common = kJsonFlag,
      .run = models};
}

int models(const Arguments& arguments, Streams& streams) {
  const auto name = arguments.find("MODEL");
  if (!name) return list(arguments, streams);
  HEADROOM_CLI_ASSIGN(const ReadOptions options, read_options(arguments), streams);
  HEADROOM_CLI_ASSIGN(Architecture model, find(*name, options), streams);
  warn_of_differences(*name, model, arguments, streams);
  HEADROOM_CLI_TRY(adapt(model, arguments), streams);
  KvCache cache;
  HEADROOM_CLI_ASSIGN(cache.dtype, kv_dtype(arguments, model), streams);
  HEADROOM_CLI_ASSIGN(const auto ranks, arguments.integer("--tensor-parallel", 1, 1 << 20), streams);
  cache.tensor = ranks.value_or(1);
  if (arguments.common.json) {
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, writers::model_json(model, cache), streams),
                     streams);
    if (*arguments.common.json == "-") return kDone;
  }
  streams.out << writers::model_table(model, cache);
  return kDone;
}

}  // namespace headroom::cli
