#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "planner/frameworks/deepspeed_chat/read.h"
#include "planner/frameworks/deepspeed_chat/supervised.h"
#include "planner/frameworks/settings/arguments.h"

namespace headroom::deepspeed_chat {
namespace {

bool is_supervised(const ReadJob& read) {
  return dynamic_cast<const supervised::Settings*>(read.settings.get()) != nullptr;
}
bool is_ppo(const ReadJob& read) {
  return dynamic_cast<const ppo::Settings*>(read.settings.get()) != nullptr;
}
auto without_knobs() {
  return fail("a map of DeepSpeed-Chat's third step has no knobs; give its command line or script");
}

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  if (is_supervised(read)) return supervised::knobs(read);
  return is_ppo(read) ? ppo::knobs(read) : std::vector<Knob>{};
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  if (is_supervised(read)) return supervised::with(read, choices);
  if (!is_ppo(read)) return without_knobs();
  return ppo::with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  if (is_supervised(read)) return supervised::settings_for(read, choices);
  if (!is_ppo(read)) return without_knobs();
  return ppo::settings_for(read, choices);
}
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  if (!is_supervised(read) && !is_ppo(read)) return without_knobs();
  return settings::write_arguments(read, settings, header);
}

}  // namespace headroom::deepspeed_chat
