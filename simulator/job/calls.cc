#include "simulator/job/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "simulator/job/loop_kind.h"
#include "simulator/job/names.h"

namespace headroom {
namespace {

constexpr int kStepsFollowed = 3;

std::string names_of(const LoopKind& kind) {
  std::string out;
  for (const LoopCall& call : kind.calls) out += (out.empty() ? "" : ", ") + std::string(call.name);
  return out;
}

class Calls {
 public:
  explicit Calls(const Job& job) : job_(job) {}

  Status run(const std::vector<PhaseSpec>& phases, int step, const char* list) {
    for (const PhaseSpec& phase : phases) {
      if (step >= 0 && !runs_in(phase, step, std::max(job_.steps, step + 1))) continue;
      for (const Action& action : phase.actions) {
        if (const Role* role = job_.role(action.role))
          HEADROOM_TRY(act(action, *role, fmt::format("{}.{}", list, name(phase.kind))));
        else if (action.verb == Verb::generate)  // an engine beside the trainers
          done_.insert(enum_name(action.verb));
      }
    }
    return {};
  }

 private:
  Status act(const Action& action, const Role& role, const std::string& at) {
    const bool own = action.verb == Verb::call;
    const std::string_view what = own ? std::string_view(action.call) : enum_name(action.verb);
    if (role.loop == nullptr) {
      if (own)
        return fail(
            Error{.message = fmt::format("expected a standard action of role {}, whose trainer has no "
                                         "calls of its own, found {}",
                                         role.name, what),
                  .file = {},
                  .key = at + ".call"});
      return {};
    }
    const auto refused = [&](std::string message) {
      return fail(Error{
          .message = std::move(message), .file = {}, .key = fmt::format("roles.{}.trainer", role.name)});
    };
    const LoopCall* call = find_call(*role.loop, action);
    const bool of_loops = own || model_work(action, &role) != ModelWork::none;
    if (call == nullptr && of_loops)
      return refused(
          fmt::format("expected a step of calls that trainer {} has ({}), found {} in {}; state "
                      "`start` and `step`, or leave trainer out",
                      role.loop->name, names_of(*role.loop), what, at));
    if (call != nullptr)
      for (const std::string_view before : call->after)
        if (!before.empty() && done_.count(before) == 0)
          return refused(fmt::format(
              "expected {} before {}, which works on what it makes, found none before {}", before, what, at));
    done_.insert(what);
    return {};
  }

  const Job& job_;
  std::set<std::string_view> done_;
};

}  // namespace

Status check_calls(const Job& job) {
  Calls calls(job);
  HEADROOM_TRY(calls.run(job.start, -1, "start"));
  for (int step = 0; step < std::min(job.steps, kStepsFollowed); ++step)
    HEADROOM_TRY(calls.run(job.step, step, "step"));
  return {};
}

}  // namespace headroom
