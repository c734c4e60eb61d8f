#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"

namespace headroom {

/// The profiles of configs/hardware, compiled into the binary, in the order of their file names.
std::span<const Hardware> hardware_profiles();

/// The profile of a GPU: by the driver's name or a short name (`h100`, `A100 80GB`, `NVIDIA-H200`). Letters
/// compare without case, punctuation and the words NVIDIA, GeForce and Tesla do not count. Errors: an unknown
/// name (up to three nearest short names are suggested), a name that stands for several cards (all are
/// listed).
Result<Hardware> find_hardware(std::string_view name);

/// `--gpu NAME|FILE`: a file when `name` holds a slash or ends in .yaml, .yml or .json, else `find_hardware`.
/// A file may build on a known profile with `like`.
Result<Hardware> load_hardware(const std::string& name);

}  // namespace headroom
