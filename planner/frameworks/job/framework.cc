#include "planner/frameworks/job/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "planner/configuration/override.h"
#include "planner/configuration/yaml_patch.h"
#include "planner/frameworks/job/file.h"
#include "planner/frameworks/job/traits.h"

namespace headroom::jobfile {
namespace {

Status apply_options(Document& document, const JobOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.gpu.empty()) overrides.push_back("gpu=" + options.gpu);
  for (const std::string& text : overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    if (change.kind == Override::Kind::remove)
      return fail(Error{.message = "a job file's fields are set, not removed (KEY=null gives the default)",
                        .file = "--set",
                        .key = change.key});
    Document value = change.value;  // words are plain here: `weights=fp32`
    if (value.is_scalar()) value = Document::scalar(value.text(), value.line());
    if (Status set = set_node(document, change.key, std::move(value)); !set)
      return fail(Error{.message = set.error().message, .file = "--set", .key = change.key});
  }
  return {};
}

void apply_numbers(Job& job, const JobOptions& options) {
  if (options.nodes) job.pools.front().nodes = *options.nodes;
  if (options.gpus_per_node) job.pools.front().gpus_per_node = *options.gpus_per_node;
  if (options.steps) job.steps = *options.steps;
  job.resumed = job.resumed || options.resumed;
}

// --- Knobs: fields of the Job itself -----------------------------------------------------------------------

/// A number or a flag of a role or an engine; `key` is its path in the file.
struct Field {
  std::string name, key, summary;
  std::string current;
  std::vector<std::string> values;
  std::function<bool(Job&, const std::string&)> set;
};

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> around(std::int64_t current, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> numbers{current};
  for (std::int64_t n = least; n <= most; n *= 2) numbers.push_back(n);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<std::string> out;
  for (std::int64_t n : numbers) out.push_back(std::to_string(n));
  return out;
}

template <typename Member>
Field counted(std::string name, std::string key, std::string summary, std::int64_t current,
              std::int64_t least, std::int64_t most, Member member) {
  return {std::move(name),
          std::move(key),
          std::move(summary),
          std::to_string(current),
          around(current, least, most),
          [member](Job& job, const std::string& text) {
            const auto value = number(text);
            if (!value) return false;
            member(job) = *value;
            return true;
          }};
}

template <typename Member>
Field flag(std::string name, std::string key, std::string summary, bool current, Member member) {
  return {std::move(name),
          std::move(key),
          std::move(summary),
          current ? "true" : "false",
          {"false", "true"},
          [member](Job& job, const std::string& text) {
            if (text != "true" && text != "false") return false;
            member(job) = text == "true";
            return true;
          }};
}

void add_role_fields(std::vector<Field>& out, const Job& job, std::size_t i) {
  const Role& role = job.roles[i];
  const std::string at = "roles." + role.name + ".";
  const auto add_pass = [&](const char* pass, const char* what, const MicroBatch& micro,
                            MicroBatch Role::*member) {
    if (micro.tokens > 0) {
      out.push_back(counted(role.name + "_" + pass + "_tokens", at + pass + ".tokens",
                            fmt::format("token budget a GPU {}", what), micro.tokens, 1024, 131072,
                            [i, member](Job& j) -> std::int64_t& { return (j.roles[i].*member).tokens; }));
    } else {
      out.push_back(counted(role.name + "_" + pass + "_sequences", at + pass + ".sequences",
                            fmt::format("sequences a GPU {}", what),
                            std::max<std::int64_t>(1, micro.sequences), 1, 256,
                            [i, member](Job& j) -> std::int64_t& { return (j.roles[i].*member).sequences; }));
    }
  };
  if (role.trained) add_pass("train", "trained on at once", role.train, &Role::train);
  add_pass("forward", "of passes without gradients", role.forward, &Role::forward);
  if (!role.trained) return;
  out.push_back({role.name + "_recompute",
                 at + "recompute.kind",
                 "gradient checkpointing",
                 std::string(enum_name(role.recompute.kind)),
                 {"none", "full"},
                 [i](Job& j, const std::string& text) {
                   const auto kind = enum_from<RecomputeKind>(text);
                   if (kind) j.roles[i].recompute.kind = *kind;
                   return kind.has_value();
                 }});
  out.push_back(flag(role.name + "_reshard_after_forward", at + "sharding.reshard_after_forward",
                     "gathered weights are freed between forward and backward",
                     role.sharding.reshard_after_forward,
                     [i](Job& j) -> bool& { return j.roles[i].sharding.reshard_after_forward; }));
}

void add_engine_fields(std::vector<Field>& out, const Job& job, std::size_t i) {
  const Engine& engine = job.engines[i];
  const std::string at = "engines." + engine.name + ".";
  if (engine.kind != EngineKind::vllm && engine.kind != EngineKind::sglang) return;
  std::vector<std::string> shares;
  for (int percent = 20; percent <= 90; percent += 5) shares.push_back(fmt::format("{}", percent / 100.0));
  const std::string current = fmt::format("{}", engine.utilization);
  if (std::find(shares.begin(), shares.end(), current) == shares.end()) shares.push_back(current);
  out.push_back({engine.name + "_utilization", at + "utilization",
                 "share of the GPU that the engine may take", current, shares,
                 [i](Job& j, const std::string& text) {
                   const auto value = Document::scalar(text).as_double();
                   if (value) j.engines[i].utilization = *value;
                   return value.has_value();
                 }});
  out.push_back(counted(engine.name + "_max_sequences", at + "max_sequences", "sequences generated at once",
                        engine.max_sequences, 16, 1024,
                        [i](Job& j) -> std::int64_t& { return j.engines[i].max_sequences; }));
  out.push_back(counted(engine.name + "_max_batched_tokens", at + "max_batched_tokens",
                        "tokens of one prefill step", engine.max_batched_tokens, 2048, 32768,
                        [i](Job& j) -> std::int64_t& { return j.engines[i].max_batched_tokens; }));
  out.push_back(counted(engine.name + "_tensor", at + "tensor", "GPUs that share one engine", engine.tensor,
                        1, 8, [i](Job& j) -> std::int64_t& { return j.engines[i].tensor; }));
  out.push_back(flag(engine.name + "_graphs", at + "graphs", "CUDA graphs", engine.graphs,
                     [i](Job& j) -> bool& { return j.engines[i].graphs; }));
}

std::vector<Field> fields_of(const Job& job) {
  std::vector<Field> out;
  for (std::size_t i = 0; i < job.roles.size(); ++i) add_role_fields(out, job, i);
  for (std::size_t i = 0; i < job.engines.size(); ++i) add_engine_fields(out, job, i);
  return out;
}

const Field* find_field(const std::vector<Field>& fields, const std::string& name) {
  const auto at =
      std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return at == fields.end() ? nullptr : &*at;
}

}  // namespace

bool detect(const JobInput& input) {
  return input.files.size() == 1 && input.files.front().document.is_map() &&
         input.files.front().document.find(kFormatKey) != nullptr &&
         input.files.front().document.find(kFormatKey)->is_scalar();
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  if (input.files.size() != 1) return fail("expected one job file; several can't be laid over each other");
  const JobInput::File& file = input.files.front();
  Document document = file.document;
  HEADROOM_TRY(apply_options(document, options));
  if (!options.model.empty()) {
    for (const char* list : {"roles", "engines"})
      if (const Document* items = document.find(list); items != nullptr && items->is_list())
        for (std::size_t i = 0; i < items->items().size(); ++i)
          HEADROOM_TRY(
              set_node(document, fmt::format("{}.{}.model", list, i), Document::scalar(options.model)));
  }
  const std::string base = std::filesystem::path(file.path).parent_path().string();
  ReadJob out;
  HEADROOM_ASSIGN(out.job, read_job_file(document, file.path, base));
  apply_numbers(out.job, options);
  HEADROOM_TRY(validate_job(out.job));
  if (!out.job.framework.empty() && out.job.framework != "job")
    out.job.assumptions.push_back(fmt::format("this job file was made from a configuration of {}", out.job.framework));
  out.job.framework = "job";  // knobs and writing are those of job files
  if (out.job.name.empty()) out.job.name = std::filesystem::path(file.path).stem().string();
  out.input = input;
  out.overrides = options.overrides;
  return out;
}

std::vector<Knob> knobs(const ReadJob& read) {
  std::vector<Knob> out;
  for (Field& field : fields_of(read.job))
    out.push_back({.name = field.name,
                   .summary = field.summary,
                   .changes_numerics = false,
                   .current = field.current,
                   .values = field.values,
                   .needs = {}});
  return out;
}

Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  const std::vector<Field> fields = fields_of(read.job);
  Job job = read.job;
  for (const Choice& choice : choices) {
    const Field* field = find_field(fields, choice.knob);
    if (field == nullptr)
      return fail(Error{.message = "is no knob of this job", .file = {}, .key = choice.knob});
    if (!field->set(job, choice.value))
      return fail(Error{
          .message = fmt::format("{} is no value of it", choice.value), .file = {}, .key = choice.knob});
  }
  HEADROOM_TRY(validate_job(job));
  return job;
}

Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  const std::vector<Field> fields = fields_of(read.job);
  std::vector<Setting> out;
  for (const Choice& choice : choices) {
    const Field* field = find_field(fields, choice.knob);
    if (field == nullptr)
      return fail(Error{.message = "is no knob of this job", .file = {}, .key = choice.knob});
    out.push_back({field->key, choice.value});
  }
  return out;
}

}  // namespace headroom::jobfile
