#include "planner/frameworks/settings/deepspeed.h"

#include "planner/configuration/version.h"

namespace headroom::settings {

void set_deepspeed_release(const std::string& version, bool scales, Sharding& sharding) {
  const std::optional<Version> release = parse_version(version);
  const auto since = [&](int major, int minor, int patch) {
    return !release || *release >= Version{major, minor, patch};
  };
  sharding.checks_bf16 = since(0, 17, 1);
  sharding.whole_bf16_states = since(0, 17, 6);
  sharding.late_buckets = since(0, 18, 3);
  sharding.divides_output_gradients = scales && since(0, 18, 3);
  sharding.gathers_in_place = since(0, 18, 5);
  sharding.flattens_on_device = since(0, 18, 7);
}

}  // namespace headroom::settings
