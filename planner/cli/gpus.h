#pragma once

#include <span>
#include <string>

#include "planner/cli/command.h"
#include "simulator/hardware/hardware.h"

namespace headroom::cli {

/// `headroom gpus [NAME|FILE]`.
Command gpus_command();

/// Lists the hardware profiles, or shows one with every figure and where it comes from. `--json` writes
/// `headroom.gpus/1`: `gpus: [{name, short_names, versions, SECTION: {FIGURE: number, source}}]`, sizes in
/// bytes, rates in FLOP/s and bytes/s, times in seconds; the sections are those of the profile's file.
int gpus(const Arguments& arguments, Streams& streams);

/// The list: one line a card with its first short name, memory and main rates.
std::string gpu_table(std::span<const Hardware> profiles);

/// One card, section by section.
std::string gpu_details(const Hardware& hardware);

}  // namespace headroom::cli
