#include "planner/writers/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/printable.h"
#include "planner/writers/columns.h"
#include "planner/writers/report_json.h"
#include "planner/writers/saved.h"
#include "planner/writers/table.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;
using search::Plan;
using search::PlanChoice;

constexpr double kCountable = 1e9;

std::string count(double number) {
  return number < kCountable ? fmt::format("{:.0f}", number) : fmt::format("{:.1e}", number);
}

std::vector<std::string> row(const std::string& rank, const search::Outcome& outcome, double now,
                             const std::string& note, const std::string& changes) {
  const std::string against = now > 0 && outcome.seconds > 0 && rank != "now"
                                  ? fmt::format("{:+.1f} %", 100 * (outcome.seconds / now - 1))
                                  : "";
  return {rank,
          outcome.seconds > 0 ? fmt::format("{:.1f}", outcome.seconds) : "",
          against,
          gib(outcome.peak_device),
          gib(outcome.spare),
          gib(outcome.peak_host),
          outcome.limiting_phase,
          note,
          changes};
}

/// What became of the space, in one sentence, with the parts that are not empty.
std::string proof_text(const Plan& plan) {
  const search::Proof& proof = *plan.proof;
  std::string out = proof.complete()
                        ? fmt::format("All {} configurations are decided:", count(proof.space))
                        : fmt::format("{} of {} configurations are left undecided:", count(proof.undecided),
                                      count(proof.space));
  const auto part = [&](double number, const char* what) {
    if (number > 0) out += fmt::format("{} {} {}", out.back() == ':' ? "" : ",", count(number), what);
  };
  part(proof.refused, "refused by the framework");
  part(proof.too_large, "do not fit by the closed form");
  part(proof.too_large_exactly, "do not fit in the simulator");
  part(proof.slower, "are no faster than the best where they fit");
  if (out.back() == ':') out.pop_back();
  out += fmt::format(" ({} run, {} simulated).", proof.evaluated, proof.exact_runs);
  if (proof.complete() && plan.space > proof.space)
    out += fmt::format(" Knobs that only the simulator tells apart stay as they are: {} with them.", count(plan.space));
  out += "\n";
  if (!proof.complete())
    out += proof.cache_decides ? "Undecided, since cached memory that other phases leave decides whether some fit.\n"
                               : "Undecided, since as many were run as a search may run.\n";
  if (proof.complete())
    out += proof.winner > 0 ? "By this model nothing in this space is faster than the best below.\n"
                            : "By this model nothing in this space fits.\n";
  return out;
}

Json proof_json(const search::Proof& proof) {
  return {{"space", proof.space},         {"refused", proof.refused},
          {"too_large", proof.too_large}, {"too_large_simulated", proof.too_large_exactly},
          {"slower", proof.slower},       {"undecided", proof.undecided},
          {"evaluated", proof.evaluated}, {"simulated", proof.exact_runs},
          {"complete", proof.complete()}};
}

/// What each change of the first choice gives and takes.
std::string parts_text(const PlanChoice& choice) {
  if (choice.parts.empty()) return "";
  using Align = Columns::Align;
  Columns columns({Align::right, Align::left, Align::left});
  columns.add({"s/step", "frees in", "change"});
  for (const search::PlanPart& part : choice.parts) {
    const search::Technique& one = part.technique;
    const std::string seconds = one.seconds_known ? fmt::format("{:+.1f}", one.seconds) : "";
    std::string frees = part.without.valid ? saved_text(one.saved) : "refused without it";
    if (part.without.valid && !part.without.fits)
      frees += fmt::format("{}needed: {} short in {} without it", frees.empty() ? "" : "; ",
                           format_gib(-part.without.spare), part.without.limiting_phase);
    columns.add({seconds, frees, settings_text(one.change.settings, one.change.choices)});
  }
  return "\nWhat each change of the first choice gives and takes beside the others, by closed form, GiB\n" +
         columns.text("  ");
}

Json parts_json(const PlanChoice& choice) {
  Json out = Json::array();
  for (const search::PlanPart& part : choice.parts) {
    Json settings = Json::object(), saved = Json::object();
    for (const Setting& setting : part.technique.change.settings) settings[setting.key] = setting.value;
    for (const auto& [phase, bytes] : part.technique.saved) saved[phase] = bytes;
    Json& one = out.emplace_back(
        Json{{"name", part.technique.name}, {"changes", std::move(settings)}, {"saved_bytes", std::move(saved)},
             {"fits_without", part.without.valid && part.without.fits}});
    if (part.technique.seconds_known) one["seconds"] = part.technique.seconds;
  }
  return out;
}

Json choice_json(const PlanChoice& choice, std::size_t rank) {
  Json changes = Json::object();
  for (const Setting& setting : choice.settings) changes[setting.key] = setting.value;
  return {{"rank", rank},
          {"changes", std::move(changes)},
          {"seconds_per_step", choice.outcome.seconds},
          {"peak_device", choice.outcome.peak_device},
          {"peak_host", choice.outcome.peak_host},
          {"limiting_phase", choice.outcome.limiting_phase},
          {"spare_bytes", choice.outcome.spare},
          {"confirmed", choice.confirmed},
          {"pareto", choice.pareto},
          {"fewest_changes", choice.fewest},
          {"parts", parts_json(choice)}};
}

}  // namespace

std::string settings_text(const std::vector<Setting>& settings, const std::vector<Choice>& choices) {
  std::string text;
  for (const Setting& setting : settings)
    text += (text.empty() ? "" : " ") + setting.key + "=" + setting.value;
  if (settings.empty())
    for (const Choice& choice : choices) text += (text.empty() ? "" : " ") + choice.knob + "=" + choice.value;
  return printable(text);
}

std::string plan_verdict(const Plan& plan) {
  if (plan.choices.empty() && plan.stopped) return "stopped before anything was found that fits";
  if (plan.choices.empty()) {
    if (plan.nearest.empty()) return "nothing in this space fits";
    const PlanChoice& nearest = plan.nearest.front();
    return fmt::format("nothing in this space fits: {} short in {} at least", format_gib(-nearest.outcome.spare),
                       nearest.outcome.limiting_phase);
  }
  const PlanChoice& best = plan.choices.front();
  const std::string against =
      plan.now.seconds > 0 ? fmt::format(" ({:+.1f} %)", 100 * (best.outcome.seconds / plan.now.seconds - 1)) : "";
  const std::string changes = settings_text(best.settings, best.choices);
  return fmt::format("fits: {:.1f} s a step{}, {} to spare in {}: {}", best.outcome.seconds, against,
                     format_gib(best.outcome.spare), best.outcome.limiting_phase,
                     changes.empty() ? "nothing to change" : changes);
}

std::string plan_table(const Plan& plan, Bytes budget) {
  std::string out;
  if (plan.evaluated > 0) {
    out += fmt::format("{} of {} configurations run in {:.2f} s ({} refused): {} fit {}", plan.evaluated,
                       count(plan.space), plan.seconds, plan.pruned, plan.feasible, format_gib(budget));
    out += fmt::format("; {} of {} tried in the simulator fit{}\n\n", plan.confirmed, plan.tried,
                       plan.exhausted ? "" : ", where the search was cut off");
  } else {
    out += fmt::format("{} configurations decided in {:.2f} s\n", count(plan.proof ? plan.proof->space : plan.space),
                       plan.seconds);
  }
  if (plan.stopped) out += "Stopped: shown is what was found by then; what was not looked at may be faster.\n\n";
  if (plan.proof) out += proof_text(plan) + "\n";
  const bool none = plan.choices.empty();
  if (none) out += plan.stopped ? "None that fits was found. These come closest, GiB:\n" : "None fits. These come closest, GiB:\n";
  using Align = Columns::Align;
  Columns columns({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
                   Align::left, Align::left, Align::left});
  columns.add({"rank", "s/step", "vs now", "device", "spare", "host", "limited by", "", "changes"});
  if (plan.now.valid)
    columns.add(row("now", plan.now, plan.now.seconds, plan.now.fits ? "" : "does not fit", ""));
  std::size_t rank = 0;
  for (const PlanChoice& choice : none ? plan.nearest : plan.choices) {
    const std::string changes = settings_text(choice.settings, choice.choices);
    columns.add(row(std::to_string(++rank), choice.outcome, plan.now.seconds, choice.fewest ? "fewest" : choice.pareto ? "pareto" : "",
                    changes.empty() ? "none" : changes));
  }
  out += columns.text();
  return out + (none ? would_fit_text(plan.would) : parts_text(plan.choices.front()));
}

std::string card_table(const std::vector<CardPlan>& cards) {
  using Align = Columns::Align;
  Columns columns({Align::left, Align::right, Align::right, Align::left});
  columns.add({"card", "s/step", "spare", "changes"});
  for (const CardPlan& card : cards) {
    const std::string changes = settings_text(card.settings, card.choices);
    if (!card.refusal.empty())
      columns.add({card.gpu, "", "", printable(card.refusal)});
    else if (!card.fits)
      columns.add({card.gpu, "", "", "nothing in this space fits"});
    else
      columns.add({card.gpu, fmt::format("{:.1f}", card.outcome.seconds), gib(card.outcome.spare),
                   changes.empty() ? "none" : changes});
  }
  return columns.text();
}

std::string plan_json(const Plan& plan, const Report& input, const std::vector<CardPlan>& cards) {
  const bool found = !plan.choices.empty() && plan.choices[0].report.has_value();
  Json out = report_json(found ? *plan.choices[0].report : input);
  out["search"] = {{"space", plan.space},         {"evaluated", plan.evaluated}, {"pruned", plan.pruned},
                   {"feasible", plan.feasible},   {"tried", plan.tried},         {"confirmed", plan.confirmed},
                   {"seconds", plan.seconds}};
  if (plan.stopped) out["search"]["stopped"] = true;
  if (plan.proof) {
    Json& search = out["search"];
    const double seconds = std::max(plan.seconds, 1e-6);
    search["proof"] = proof_json(*plan.proof);
    search["evaluated_per_second"] = static_cast<double>(plan.proof->evaluated) / seconds;
    search["accounted_per_second"] = (plan.proof->space - plan.proof->undecided) / seconds;
  }
  if (!plan.would.empty()) out["would_fit"] = would_fit_json(plan.would);
  out["choices"] = Json::array();
  for (std::size_t i = 0; i < plan.choices.size(); ++i)
    out["choices"].push_back(choice_json(plan.choices[i], i + 1));
  for (const CardPlan& card : cards) {
    Json one = {{"gpu", card.gpu}, {"fits", card.fits}};
    if (!card.refusal.empty()) one["refusal"] = card.refusal;
    if (card.fits) {
      one["seconds_per_step"] = card.outcome.seconds;
      one["spare_bytes"] = card.outcome.spare;
      one["changes"] = Json::object();
      for (const Setting& setting : card.settings) one["changes"][setting.key] = setting.value;
    }
    out["cards"].push_back(std::move(one));
  }
  return dump(out);
}

}  // namespace headroom::writers
