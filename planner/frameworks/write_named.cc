#include "planner/frameworks/write_named.h"

#include <algorithm>
#include <vector>

#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/write_launch.h"

namespace headroom {
namespace {

std::string plain(const Setting& setting) {
  return setting.key + "=" + setting.value;
}

Spelling hydra(const ReadJob& read) {
  const auto layers = static_cast<const settings::TableSettings&>(*read.settings).layers;
  return [layers](const Setting& setting) { return (layers->given(setting.key) ? "" : "++") + plain(setting); };
}

bool own(std::string_view key) {
  return key.substr(key.find_first_not_of("+~")).starts_with("headroom.");
}

std::vector<Setting> programs_own(std::span<const Setting> settings) {
  std::vector<Setting> out(settings.begin(), settings.end());
  std::erase_if(out, [](const Setting& setting) { return own(setting.key); });
  return out;
}

Result<std::string> script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header,
                           const Spelling& spelling) {
  ReadJob launch = read;
  std::erase_if(launch.overrides, [](const std::string& text) { return own(text); });
  return write_script(launch, programs_own(settings), header, spelling);
}

}  // namespace

Result<std::string> write_named_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  return script(read, settings, header, plain);
}

Result<std::string> write_named_overrides(const ReadJob& /*read*/, std::span<const Setting> settings,
                                          const WriteHeader& header) {
  return write_overrides(programs_own(settings), header, plain);
}

Result<std::string> write_hydra_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  return script(read, settings, header, hydra(read));
}

Result<std::string> write_hydra_overrides(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header) {
  return write_overrides(programs_own(settings), header, hydra(read));
}

}  // namespace headroom
