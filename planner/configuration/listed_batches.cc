#include "planner/configuration/listed_batches.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {
namespace {

constexpr std::int64_t kLongest = 1'000'000'000;

/// Who runs its batches in the phase that reports show as `phase`.
const Action* runner(const Job& job, const std::string& phase) {
  for (const std::vector<PhaseSpec>* phases : {&job.step, &job.start})
    for (const PhaseSpec& spec : *phases) {
      if ((spec.name.empty() ? name(spec.kind) : spec.name) != phase) continue;
      for (const Action& action : spec.actions)
        if (action.verb == Verb::forward || action.verb == Verb::train) return &action;
    }
  return nullptr;
}

class Reader {
 public:
  Reader(const Job& job, const std::string& file) : job_(job), file_(file) {}

  Result<std::vector<ListedBatches>> read(const Document& phases) {
    std::vector<ListedBatches> out;
    for (std::size_t i = 0; i < phases.items().size(); ++i) {
      HEADROOM_ASSIGN(ListedBatches one, phase(phases.items()[i], fmt::format("phases[{}]", i)));
      if (!one.micro_batches.empty()) out.push_back(std::move(one));
    }
    return out;
  }

 private:
  tl::unexpected<Error> wrong(const Document& at, std::string key, const char* expected) const {
    return fail(Error{.message = fmt::format("expected {}, found {}", expected,
                                             at.is_scalar() ? at.text().substr(0, 40) : "none"),
                      .file = file_,
                      .line = at.line(),
                      .key = std::move(key)});
  }

  /// Without micro-batches when there is nothing to list.
  Result<ListedBatches> phase(const Document& phase, const std::string& key) const {
    ListedBatches out;
    const Document* batches = phase.find("micro_batches");
    if (batches == nullptr || !batches->is_list() || batches->items().empty()) return out;
    const Document *step = phase.find("step"), *name = phase.find("phase");
    const auto number = step == nullptr ? std::nullopt : step->as_int();
    if (!number || *number < -1 || *number > 1'000'000)
      return wrong(step == nullptr ? phase : *step, key + ".step", "a step's number, from 0");
    if (name == nullptr || !name->is_scalar())
      return wrong(name == nullptr ? phase : *name, key + ".phase", "a phase's name");
    const Action* action = runner(job_, name->text());
    if (action == nullptr) return out;
    out.step = static_cast<int>(*number);
    out.role = action->role;
    out.training = action->verb == Verb::train;
    for (std::size_t i = 0; i < batches->items().size(); ++i) {
      HEADROOM_ASSIGN(std::vector<std::int64_t> lengths,
                      one_batch(batches->items()[i], fmt::format("{}.micro_batches[{}]", key, i)));
      out.micro_batches.push_back(std::move(lengths));
    }
    return out;
  }

  Result<std::vector<std::int64_t>> one_batch(const Document& batch, const std::string& key) const {
    if (!batch.is_list() || batch.items().empty()) return wrong(batch, key, "token lengths of its sequences");
    std::vector<std::int64_t> out;
    for (const Document& item : batch.items()) {
      const auto length = item.as_int();
      if (!length || *length < 1 || *length > kLongest) return wrong(item, key, "a sequence's tokens");
      out.push_back(*length);
    }
    return out;
  }

  const Job& job_;
  const std::string& file_;
};

}  // namespace

bool lists_batches(const Document& document) {
  const Document* phases = document.find("phases");
  return phases != nullptr && phases->is_list() &&
         std::any_of(phases->items().begin(), phases->items().end(),
                     [](const Document& phase) { return phase.find("micro_batches") != nullptr; });
}

Result<std::vector<ListedBatches>> listed_batches(const Document& document, const Job& job,
                                                  const std::string& file) {
  const Document* phases = document.find("phases");
  if (phases == nullptr || !phases->is_list())
    return fail(Error{.message = "expected a list of phases with their micro_batches, found none",
                      .file = file,
                      .line = document.line(),
                      .key = "phases"});
  return Reader(job, file).read(*phases);
}

}  // namespace headroom
