#include "planner/configuration/listed_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "planner/configuration/balanced_batches.h"
#include "simulator/job/batching.h"

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

  /// Token lengths, at least one.
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

  const Job& job_;
  const std::string& file_;
};

/// Sequences in micro-batches, one after the other or balanced.
std::vector<std::vector<std::int64_t>> cut(const Role& role, Pass pass, std::span<const std::int64_t> lengths) {
  const MicroBatch& micro = pass == Pass::train ? role.train : role.forward;
  if (micro.tokens > 0)
    return budgeted_batches(lengths, micro.tokens * role.parallel.ulysses * role.parallel.context);
  std::vector<std::vector<std::int64_t>> out;
  const std::size_t size = micro.sequences > 0 ? static_cast<std::size_t>(micro.sequences) : lengths.size();
  for (std::size_t at = 0; at < lengths.size(); at += size) {
    const auto part = lengths.subspan(at, std::min(size, lengths.size() - at));
    out.emplace_back(part.begin(), part.end());
  }
  return out;
}

Result<std::vector<ListedBatches>> batches_of_sequences(const Document& steps, const Job& job,
                                                        const std::string& file) {
  std::vector<ListedBatches> out;
  for (std::size_t step = 0; step < steps.items().size(); ++step) {
    const std::string key = fmt::format("sequences[{}]", step);
    HEADROOM_ASSIGN(const std::vector<std::int64_t> lengths,
                    Reader(job, file).one_batch(steps.items()[step], key));
    for (const PhaseSpec& phase : job.step)
      for (const Action& action : phase.actions) {
        const Role* role = job.role(action.role);
        if (role == nullptr || (action.verb != Verb::forward && action.verb != Verb::train)) continue;
        const std::int64_t mine = job.batch.sequences() / data_parallel_size(job, *role);
        if (static_cast<std::int64_t>(lengths.size()) != mine)
          return fail(Error{.message = fmt::format("expected the {} sequences that one rank has of a step, found "
                                                   "{}",
                                                   mine, lengths.size()),
                            .file = file,
                            .line = steps.items()[step].line(),
                            .key = key});
        out.push_back(cut_batches(job, *role, action, static_cast<int>(step), lengths));
      }
  }
  return out;
}

}  // namespace

ListedBatches cut_batches(const Job& job, const Role& role, const Action& action, int step,
                          std::span<const std::int64_t> lengths) {
  ListedBatches out{.step = step, .role = action.role, .training = action.verb == Verb::train, .micro_batches = {}};
  const Pass pass = out.training ? Pass::train : Pass::forward;
  const std::int64_t mini = mini_batch_of(job, role) / data_parallel_size(job, role);
  const std::size_t size = out.training ? static_cast<std::size_t>(std::max<std::int64_t>(1, mini)) : lengths.size();
  for (std::size_t at = 0; at < lengths.size(); at += size)
    for (auto& batch : cut(role, pass, lengths.subspan(at, std::min(size, lengths.size() - at))))
      out.micro_batches.push_back(std::move(batch));
  return out;
}

bool lists_batches(const Document& document) {
  if (const Document* steps = document.find("sequences"); steps != nullptr && steps->is_list()) return true;
  const Document* phases = document.find("phases");
  return phases != nullptr && phases->is_list() &&
         std::any_of(phases->items().begin(), phases->items().end(),
                     [](const Document& phase) { return phase.find("micro_batches") != nullptr; });
}

Result<std::vector<ListedBatches>> listed_batches(const Document& document, const Job& job,
                                                  const std::string& file) {
  if (const Document* steps = document.find("sequences"); steps != nullptr && steps->is_list())
    return batches_of_sequences(*steps, job, file);
  const Document* phases = document.find("phases");
  if (phases == nullptr || !phases->is_list())
    return fail(Error{.message = "expected a list of phases with their micro_batches, found none",
                      .file = file,
                      .line = document.line(),
                      .key = "phases"});
  return Reader(job, file).read(*phases);
}

}  // namespace headroom
