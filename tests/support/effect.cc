#include "tests/support/effect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "planner/cli/prediction.h"
#include "simulator/closed_form/folded_trainer.h"
#include "simulator/hardware/library.h"
#include "simulator/job/no_effect.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"

namespace headroom::test {
namespace {

std::string with_paths(std::string text) {
  for (const char* file : {"dense.json", "experts.json", "slow_host.yaml"}) {
    const std::string name = fmt::format("{{{}}}", std::string_view(file).substr(0, std::string_view(file).find('.')));
    for (std::size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), data(std::string("job-fields/") + file).string());
  }
  return text;
}

std::vector<std::string> texts(const Document* list) {
  std::vector<std::string> out;
  if (list != nullptr)
    for (const Document& item : list->items()) out.push_back(with_paths(item.text()));
  return out;
}

std::string figures(const Result<Report>& report) {
  if (!report) return report.error().text();
  std::string out;
  for (const DeviceReport& device : report->devices) {
    for (const EngineReport& engine : device.engines)
      out += fmt::format("{} {} {}\n", engine.kv_cache, engine.kv_blocks, engine.concurrency);
    for (const PhaseReport& phase : device.phases) {
      out += fmt::format("{} {}:{} {} {} {}", phase.step, phase.phase, phase.within, phase.peak_device,
                         phase.peak_host, phase.seconds);
      for (const ProcessPhase& process : phase.processes)
        out += fmt::format(" {}/{}/{}/{}", process.peak_allocated, process.peak_reserved, process.peak_active, process.n_allocs);
      out += '\n';
    }
  }
  return out;
}

Result<Hardware> hardware_of(const Job& job) { return load_hardware(job.gpu.empty() ? "h100" : job.gpu); }

/// The report that `headroom estimate` writes: everything that it names or says, and what it expects.
std::string words(const ReadJob& read) {
  const Result<Hardware> hardware = hardware_of(read.job);
  if (!hardware) return hardware.error().text();
  cli::Run run;
  run.read = read;
  run.framework = find_framework(read.job.framework);
  run.hardware = *hardware;
  const Result<Report> report = cli::predict(run, closed_form::estimate);
  if (!report) return report.error().text();
  std::string out = report->title + '\n';
  for (const auto& list : {report->understood, report->versions})
    for (const auto& [what, text] : list) out += fmt::format("{}: {}\n", what, text);
  for (const std::string& text : report->assumptions) out += text + '\n';
  for (const Warning& warning : report->warnings) out += warning.message + '\n';
  for (const DeviceReport& device : report->devices) {
    for (const EngineReport& engine : device.engines) out += engine.engine + '\n';
    for (const PhaseReport& phase : device.phases)
      for (const ProcessPhase& process : phase.processes)
        out += fmt::format("{} {} {}\n", phase.phase, process.process, phase.expected_device.value_or(0));
  }
  return out;
}

/// A job file's path without the names and places of list items: roles.actor.trained is roles.trained.
std::string without_items(const std::string& path) {
  static const std::set<std::string> lists{"roles", "engines", "processes", "pools", "start", "step", "actions", "listed"};
  std::string out;
  bool item = false;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    const std::string word = path.substr(at, dot - at);
    if (!item) out += (out.empty() ? "" : ".") + word;
    item = !item && lists.contains(word) && dot < path.size();
    at = dot + 1;
  }
  return out;
}

/// What its reader says of a run.
std::set<std::string> said(const ReadJob& read) {
  std::set<std::string> out(read.job.not_modelled.begin(), read.job.not_modelled.end());
  for (const Notice& notice : read.warnings) out.insert(notice.key + ": " + notice.message);
  return out;
}

}  // namespace

void PrintTo(Change change, std::ostream* out) {
  static constexpr const char* kNames[] = {"nothing", "figures", "a refusal", "what is shown", "a warning"};
  *out << kNames[static_cast<int>(change)];
}

Base::Base(std::string framework, std::vector<std::string> files, std::string text,
           std::vector<std::string> overrides)
    : framework_(std::move(framework)),
      text_(std::move(text)),
      files_(std::move(files)),
      overrides_(std::move(overrides)),
      read_(read_with({})) {}

Result<ReadJob> Base::read_with(std::vector<std::string> more) const {
  JobOptions options;
  options.framework = framework_;
  options.overrides = overrides_;
  options.overrides.insert(options.overrides.end(), more.begin(), more.end());
  if (files_.empty()) return read_job_text(text_, framework_ + ".yaml", options);
  return read_job(files_, options);
}

bool Base::figures_differ(const Job& before, const Job& after, bool own) {
  for (const bool simulated : {false, true}) {
    const auto run = [&](const Job& job) {
      const Result<Hardware> found = hardware_of(job);
      if (!found) return found.error().text();
      return figures(simulated ? simulate(job, *found) : closed_form::estimate(job, *found));
    };
    std::string reference;
    if (own) {
      if (!figures_.contains(simulated)) figures_[simulated] = run(before);
      reference = figures_[simulated];
    } else {
      reference = run(before);
    }
    if (run(after) != reference) return true;
  }
  return false;
}

Change Base::change(const std::string& key, const std::string& value, std::vector<std::string> beside) {
  std::optional<Result<ReadJob>> other;
  if (!beside.empty()) other = read_with(beside);
  const Result<ReadJob>& before = other ? *other : read_;
  if (!before) {
    ADD_FAILURE() << framework_ << ": " << before.error().text();
    return Change::none;
  }
  beside.push_back(key + "=" + value);
  const Result<ReadJob> after = read_with(beside);
  if (!after) return Change::refused;
  Job plain = after->job;
  plain.name = before->job.name;
  plain.assumptions = before->job.assumptions;
  plain.not_modelled = before->job.not_modelled;
  if (!(plain == before->job) && figures_differ(before->job, plain, !other)) return Change::figures;
  if (!(plain.versions == before->job.versions)) return Change::shown;
  if ((framework_ == "job" || key == "name") && words(*before) != words(*after)) return Change::shown;
  const std::set<std::string> known = said(*before);
  if (no_effect(after->job).size() > no_effect(before->job).size()) return Change::told;
  const std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
  for (const std::string& text : said(*after))
    if (!known.contains(text) && text.find(last) != std::string::npos) return Change::told;
  return Change::none;
}

KeyCases::KeyCases(const std::string& framework) : framework_(framework) {
  const Result<Document> read = read_document(data("keys/" + framework + ".yaml").string());
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  if (!read) return;
  document_ = *read;
  for (const auto& [key, entry] : document_.find("keys")->entries()) {
    Case& one = cases_.emplace_back();
    one.key = key;
    one.base = entry.items().at(0).text();
    one.value = with_paths(entry.items().at(1).text());
    for (std::size_t i = 2; i < entry.items().size(); ++i)
      one.beside.push_back(with_paths(entry.items()[i].text()));
  }
}

std::vector<std::string> KeyCases::bases() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : document_.find("bases")->entries()) out.push_back(name);
  return out;
}

Base& KeyCases::base(const std::string& name) {
  const auto found = bases_.find(name);
  if (found != bases_.end()) return found->second;
  std::vector<std::string> files, overrides;
  std::string text;
  for (std::string at = name; !at.empty();) {
    const Document* entry = document_.find("bases")->find(at);
    if (entry == nullptr) {
      ADD_FAILURE() << framework_ << " has no base " << at;
      break;
    }
    const std::vector<std::string> set = texts(entry->find("set"));
    overrides.insert(overrides.begin(), set.begin(), set.end());
    if (const Document* file = entry->find("file")) files.push_back(source(file->text()).string());
    if (const Document* own = entry->find("text")) text = with_paths(own->text());
    const Document* of = entry->find("of");
    at = of == nullptr ? "" : of->text();
  }
  return bases_.emplace(name, Base(framework_, files, text, overrides)).first->second;
}

std::set<std::string> keys_used(const std::string& framework) {
  KeyCases cases(framework);
  std::set<std::string> out;
  for (const std::string& name : cases.bases()) {
    const Result<ReadJob>& read = cases.base(name).read();
    EXPECT_TRUE(read) << framework << " " << name << ": " << read.error().text();
    if (!read) continue;
    for (const KeyUse& use : read->keys)
      if (use.state == KeyUse::State::used || use.state == KeyUse::State::defaulted) out.insert(use.key);
  }
  return out;
}

void expect_every_key_matters(const std::string& framework, const std::set<std::string>& keys) {
  KeyCases cases(framework);
  std::set<std::string> named;
  for (const KeyCases::Case& one : cases.cases()) {
    EXPECT_TRUE(named.insert(framework == "job" ? without_items(one.key) : one.key).second) << framework << ": " << one.key << " has an example";
    EXPECT_NE(cases.base(one.base).change(one.key, one.value, one.beside), Change::none)
        << framework << ": " << one.key << "=" << one.value << " on " << one.base
        << " changes nothing, and no warning says so";
  }
  for (const std::string& key : keys)
    EXPECT_TRUE(named.contains(key)) << framework << ": " << key << " has no example in tests/data/keys";
  for (const std::string& key : named)
    EXPECT_TRUE(keys.contains(key)) << framework << ": " << key << " is no key that is modelled";
}

}  // namespace headroom::test
