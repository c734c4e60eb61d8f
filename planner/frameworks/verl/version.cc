#include "planner/frameworks/verl/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "planner/frameworks/verl/schema.h"

namespace headroom::verl {
namespace {

/// `key` (with `value` as its text, when given) stands in releases from `since` up to, not including,
/// `until`.
struct Clue {
  std::string_view key;
  std::string_view value;
  Version since, until;
};

// Only what the schema (schema.h) does not tell: values, and keys that a release still has and no longer
// reads.
constexpr std::array kClues = {
    Clue{"reward_model.enable", "", kOldest, {0, 7, 1}},
    Clue{"reward_model.model.path", "", kOldest, {0, 7, 1}},
    Clue{"reward_model.reward_manager", "", kOldest, {0, 7, 1}},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_dtensor", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_megatron", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_hf", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.mode", "sync", kOldest, {0, 7, 0}},
    Clue{kGradOffload, "", kOldest, {0, 4, 0}},
    Clue{"actor_rollout_ref.rollout.name", "sglang_async", kOldest, {0, 5, 0}},
    Clue{"actor_rollout_ref.actor.ppo_micro_batch_size", "", kOldest, {0, 8, 0}},
    Clue{"critic.ppo_micro_batch_size", "", kOldest, {0, 8, 0}},
};

/// Programs by a part of their module, with the releases that have them.
constexpr std::array kPrograms = {
    Clue{"recipe.", "", {0, 4, 0}, {0, 7, 1}},
    Clue{"verl.experimental.fully_async_policy", "", {0, 7, 1}, kNever},
    Clue{"verl.experimental.one_step_off_policy", "", {0, 7, 1}, kNever},
    Clue{"verl.trainer.main_ppo_sync", "", {0, 8, 0}, kNever},
    Clue{"main_ppo_split", "", kOldest, {0, 8, 0}},
};

/// Keys of recipes that the trainer's own configuration got later (DAPO and what builds on it).
constexpr std::array kRecipeKeys = {std::string_view("data.gen_batch_size"), std::string_view("algorithm.filter_groups")};

/// What a training run must say from a release on: a launch that leaves it out is meant for an older one.
struct Demand {
  std::string_view key;
  Version since;
};
constexpr std::array kDemands = {Demand{"actor_rollout_ref.rollout.name", {0, 6, 0}}};
/// Programs that train with a rollout.
constexpr std::array kTraining = {std::string_view("main_ppo"), std::string_view("recipe.")};

/// The releases, oldest first, each with the libraries of the container image that its own documentation names
/// (docs/start/install.rst at the release's tag; 0.5.0 names images of 0.4, and its setup.py asks for vLLM up to 0.8.5).
struct Release {
  Version verl;
  std::string_view torch, vllm, sglang, transformers;
};

constexpr std::array kReleases = {
    Release{{0, 3, 0}, "2.6.0", "0.8.3", "0.4.6", "4.51.0"},
    Release{{0, 4, 0}, "2.6.0", "0.8.5", "0.4.6", "4.51.0"},
    Release{{0, 6, 0}, "2.7.1", "0.10.0", "0.4.10", "4.55.4"},
    Release{{0, 6, 1}, "2.8.0", "0.11.0", "0.5.5", "4.56.0"},
    Release{{0, 7, 0}, "2.9.0", "0.12.0", "0.5.6", "4.57.0"},
    Release{{0, 7, 1}, "2.10.0", "0.17.0", "0.5.9", "5.2.0"},
    Release{{0, 8, 0}, "2.11.0", "0.20.2", "0.5.12", "5.3.0"},
    Release{{0, 9, 0}, "2.11.0", "0.24.0", "0.5.12", "5.10.0"},
};

bool matches(const Layers& layers, const Clue& clue) {
  const auto found = layers.get(clue.key);
  if (!found || !*found || !(*found)->given || (*found)->value.is_null()) return false;
  return clue.value.empty() || (*found)->value.text() == clue.value;
}



/// One clue and the releases that agree with it.
struct Vote {
  std::string key;
  Releases releases = 0;
  bool word = false;  ///< no key, but a program or a version
};

Releases between(const Version& since, const Version& until) {
  Releases out = 0;
  for (std::size_t i = 0; i < schema_releases().size(); ++i)
    if (since <= schema_releases()[i] && schema_releases()[i] < until) out |= Releases{1} << i;
  return out;
}

void vote(std::vector<Vote>& votes, std::string key, Releases releases, bool word = false) {
  if (releases != 0 && releases != all_releases()) votes.push_back({std::move(key), releases, word});
}

/// A development version stands between the release before it and the one after it, whichever of the two its
/// number was raised for. All releases where nothing is said.
Releases developed_between(const std::string& development) {
  const auto version = parse_version(development);
  if (!version || development.empty()) return all_releases();
  const Releases now = release_bit(*version);
  return (now | (now >> 1) | (now << 1)) & all_releases();
}

/// Whether a recipe's own configuration adds `key` to the trainer's, whatever the release.
bool added_by_recipe(const std::string& key, const std::string& program) {
  return program.find("recipe.") != std::string::npos &&
         std::any_of(kRecipeKeys.begin(), kRecipeKeys.end(),
                     [&](std::string_view one) { return key == one || key.starts_with(std::string(one) + "."); });
}

std::vector<Vote> votes_of(const Layers& layers, const ReleaseClues& clues) {
  std::vector<Vote> votes;
  std::set<std::string> added;
  for (const std::string& word : clues.words) {
    if (!word.starts_with('+') || word.starts_with("++")) continue;
    const std::string key = word.substr(1, word.find('=') - 1);
    added.insert(key);
    const Releases having = releases_with(key);
    if (having != 0) vote(votes, "+" + key, (all_releases() & ~having) | releases_open_to(key));
  }
  for (const Layers::Leaf& leaf : layers.given_leaves()) {
    if (leaf.value->is_null() || added.contains(leaf.key) || added_by_recipe(leaf.key, clues.program)) continue;
    vote(votes, leaf.key, releases_with(leaf.key));
  }
  for (const Clue& clue : kClues)
    if (matches(layers, clue)) vote(votes, std::string(clue.key), between(clue.since, clue.until));
  for (const Clue& program : kPrograms)
    if (!clues.program.empty() && clues.program.find(program.key) != std::string::npos)
      vote(votes, clues.program, between(program.since, program.until), true);
  if (std::any_of(kTraining.begin(), kTraining.end(),
                  [&](std::string_view one) { return clues.program.find(one) != std::string::npos; }))
    for (const Demand& demand : kDemands)
      if (!matches(layers, {demand.key, "", {}, {}}))
        vote(votes, fmt::format("{} is not given, which {} and later demand", demand.key, to_string(demand.since)),
             between(kOldest, demand.since), true);
  if (!clues.development.empty())
    vote(votes, "verl " + clues.development, developed_between(clues.development), true);
  return votes;
}

std::optional<Version> newest_of(Releases releases) {
  std::optional<Version> found;
  for (std::size_t i = 0; i < schema_releases().size(); ++i)
    if (((releases >> i) & 1) != 0 && (!found || schema_releases()[i] <= kNewest))
      found = schema_releases()[i];
  return found;
}

/// Of `releases`, those whose image is no newer than that vLLM; the oldest one when all are.
Releases with_vllm(Releases releases, const Version& vllm) {
  Releases out = 0;
  for (std::size_t i = 0; i < schema_releases().size(); ++i) {
    if (((releases >> i) & 1) == 0) continue;
    Versions image;
    complete_versions(schema_releases()[i], image);
    if (out == 0 || *parse_version(image.vllm) <= vllm) out = Releases{1} << i;
  }
  return out;
}

/// The clues that keep out the releases around the chosen ones, two at most.
std::string because_of(const std::vector<Vote>& votes, Releases chosen) {
  std::string out;
  int told = 0;
  for (const bool older : {true, false}) {
    const Vote* best = nullptr;
    Releases excluded = 0;
    for (const Vote& one : votes) {
      if ((one.releases & chosen) == 0 || (!one.word && describe(one.releases) == describe(all_releases())))
        continue;  // tells nothing
      Releases beside = all_releases() & ~one.releases;
      const Releases low = chosen & (~chosen + 1);
      beside &= older ? low - 1 : ~(low - 1) & ~chosen;
      if (std::popcount(beside) > std::popcount(excluded)) {
        excluded = beside;
        best = &one;
      }
    }
    if (best == nullptr || told == 2) continue;
    const std::string text =
        best->word ? best->key : fmt::format("{} is a key {}", best->key, describe(best->releases));
    if (out.find(text) != std::string::npos) continue;
    out += (out.empty() ? "" : ", ") +
           (best->key.starts_with('+') ? fmt::format("{} is needed {}", best->key, describe(best->releases))
                                       : text);
    ++told;
  }
  return out;
}

}  // namespace

InferredVersion infer_version(const Layers& layers, const ReleaseClues& clues) {
  InferredVersion out;
  const std::vector<Vote> votes = votes_of(layers, clues);
  const auto vllm = parse_version(clues.vllm);
  std::size_t fewest = votes.size() + 1;
  Releases agreeing = 0;
  const Releases possible = developed_between(clues.development);
  for (std::size_t i = 0; i < schema_releases().size(); ++i) {
    const Releases release = Releases{1} << i;
    if ((release & possible) == 0) continue;
    const auto against = static_cast<std::size_t>(std::count_if(
        votes.begin(), votes.end(), [&](const Vote& one) { return (one.releases & release) == 0; }));
    if (against > fewest) continue;
    agreeing = against < fewest ? release : agreeing | release;
    fewest = against;
  }
  const Releases chosen = vllm ? with_vllm(agreeing, *vllm) : agreeing;
  out.version = *newest_of(chosen);
  if (vllm) out.because = fmt::format("vLLM {}", clues.vllm);
  const std::string why = because_of(votes, vllm ? agreeing : chosen);
  if (!why.empty()) out.because += (out.because.empty() ? "" : ", ") + why;
  if (!vllm)
    for (std::size_t i = schema_releases().size(); i-- > 0;)
      if (((agreeing >> i) & 1) != 0 && schema_releases()[i] < out.version) out.older.push_back(schema_releases()[i]);
  const Releases taken = release_bit(out.version);
  const auto agrees =
      std::find_if(votes.begin(), votes.end(), [&](const Vote& one) { return (one.releases & taken) != 0; });
  for (const Vote& one : votes) {
    if ((one.releases & taken) != 0 || agrees == votes.end() || out.conflicts.size() >= 3) continue;
    Notice notice{.file = {}, .line = 0, .key = one.key, .message = {}};
    layers.locate(one.key.starts_with('+') ? std::string_view(one.key).substr(1) : std::string_view(one.key),
                  notice.file, notice.line);
    notice.message =
        fmt::format("is a key of verl {}, but {} is one {}; read as {} (headroom.versions.verl says which)",
                    describe(one.releases), agrees->key, describe(agrees->releases), to_string(out.version));
    out.conflicts.push_back(std::move(notice));
  }
  return out;
}

std::vector<Version> before_demand(std::string_view key) {
  std::vector<Version> out;
  for (const Demand& demand : kDemands)
    for (std::size_t i = schema_releases().size(); i-- > 0 && demand.key == key;)
      if (schema_releases()[i] < demand.since) out.push_back(schema_releases()[i]);
  return out;
}

void complete_versions(const Version& verl, Versions& versions) {
  const Release* shipped = &kReleases.front();
  for (const Release& release : kReleases)
    if (release.verl <= verl) shipped = &release;
  const auto complete = [](std::string& version, std::string_view known) {
    if (version.empty()) version = known;
  };
  complete(versions.framework, to_string(verl));
  complete(versions.torch, shipped->torch);
  complete(versions.vllm, shipped->vllm);
  complete(versions.sglang, shipped->sglang);
  complete(versions.transformers, shipped->transformers);
}

}  // namespace headroom::verl
