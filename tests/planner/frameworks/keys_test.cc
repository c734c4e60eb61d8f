#include <gmock/gmock.h>

#include <map>

#include "planner/frameworks/chatlearn/settings.h"
#include "planner/frameworks/colossalchat/settings.h"
#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "planner/frameworks/deepspeed_chat/supervised.h"
#include "planner/frameworks/nemo_rl/settings.h"
#include "planner/frameworks/openrlhf/settings.h"
#include "planner/frameworks/trl/settings.h"
#include "planner/frameworks/verl/keys.h"
#include "tests/support/effect.h"

/// Every key that a framework's table calls modelled changes a report, refuses the run or says that it is in
/// vain: tests/data/keys has an example of each.

namespace headroom {
namespace {

using settings::Key;

/// Of two rows of one key and release the first counts.
void append(std::set<std::string>& into, std::span<const Key> keys) {
  std::map<std::string, const Key*> first;
  for (const Key& key : keys) {
    const Key* known = first.emplace(key.path, &key).first->second;
    const bool overruled = known != &key && known->since <= key.since && key.until <= known->until;
    if (key.effect == settings::Effect::modelled && !overruled) into.insert(key.path);
  }
}

TEST(Keys, OfVerlMatter) {
  std::set<std::string> keys;
  append(keys, verl::keys());
  test::expect_every_key_matters("verl", keys);
}

TEST(Keys, OfNemoRlMatter) {
  using nemo_rl::Algorithm;
  std::set<std::string> keys;
  for (const Algorithm algorithm : {Algorithm::grpo, Algorithm::ppo, Algorithm::dpo, Algorithm::sft,
                                    Algorithm::rm, Algorithm::distillation}) {
    nemo_rl::Settings settings;
    settings.algorithm = algorithm;
    for (nemo_rl::Policy* policy : {&settings.policy, &settings.value, &settings.teacher})
      policy->megatron.enabled = true;
    append(keys, nemo_rl::keys_of(settings));
  }
  test::expect_every_key_matters("nemo-rl", keys);
}

TEST(Keys, OfOpenRlhfMatter) {
  using openrlhf::Program;
  std::set<std::string> keys;
  for (const Program program : {Program::rl, Program::sft, Program::rm, Program::dpo})
    append(keys, openrlhf::keys_of(program));
  test::expect_every_key_matters("openrlhf", keys);
}

TEST(Keys, OfTrlMatter) {
  using trl::Trainer;
  std::set<std::string> keys;
  for (const Trainer trainer :
       {Trainer::grpo, Trainer::rloo, Trainer::ppo, Trainer::dpo, Trainer::sft, Trainer::reward})
    append(keys, trl::keys_of(trainer));
  test::expect_every_key_matters("trl", keys);
}

TEST(Keys, OfColossalChatMatter) {
  using colossalchat::Program;
  std::set<std::string> keys;
  for (const Program program : {Program::ppo, Program::benchmark, Program::grpo, Program::sft, Program::rm,
                                Program::dpo, Program::orpo, Program::kto})
    append(keys, colossalchat::keys_of(program));
  test::expect_every_key_matters("colossalchat", keys);
}

TEST(Keys, OfChatLearnMatter) {
  std::set<std::string> keys;
  chatlearn::Settings settings;
  for (const bool megatron : {false, true}) {
    settings.megatron = megatron;
    append(keys, chatlearn::keys_of(settings));
  }
  test::expect_every_key_matters("chatlearn", keys);
}

TEST(Keys, OfDeepSpeedChatMatter) {
  std::set<std::string> keys;
  append(keys, deepspeed_chat::supervised::keys());
  append(keys, deepspeed_chat::ppo::keys());
  test::expect_every_key_matters("deepspeed-chat", keys);
}

/// Readers without a table: what they say they use.
TEST(Keys, OfOtherReadersMatter) {
  for (const char* framework : {"easyr1", "torch"}) test::expect_every_key_matters(framework, test::keys_used(framework));
}

}  // namespace
}  // namespace headroom
