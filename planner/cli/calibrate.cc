#include "planner/cli/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "planner/cli/output.h"
#include "simulator/hardware/file.h"
#include "simulator/hardware/library.h"
#include "validator/profile/fit.h"
#include "validator/profile/host_times.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

std::string table(const gpu::Measurements& m) {
  std::string text =
      fmt::format("{} ({} multiprocessors, {})\n", m.gpu, m.multiprocessors, format_gib(m.total_memory));
  for (const auto& [what, version] : m.versions) text += fmt::format("  {} {}\n", what, version);
  text += "\nmemory outside allocators             added         card used\n";
  for (const auto& p : m.memory) {
    text += fmt::format("  {:<32} {:>12}  {:>12}\n", p.action, format_bytes(std::max<Bytes>(p.added, 0)),
                        format_bytes(p.used));
  }
  if (!m.rates.empty())
    text +=
        "\ntime of                          shape                  dtype      seconds    TFLOP/s       "
        "GB/s\n";
  for (const auto& p : m.rates) {
    text += fmt::format("  {:<30} {:<22} {:<6} {:>11.3e} {:>10.1f} {:>10.1f}\n", p.kind, p.shape,
                        name(p.dtype), p.seconds, p.flops / p.seconds * 1e-12, p.bytes / p.seconds * 1e-9);
  }
  if (!m.host_seconds.empty()) {
    text += fmt::format("\nhost: {}\n", m.host);
    for (const auto& [piece, seconds] : m.host_seconds) text += fmt::format("  {:<30} {:>11.3e}\n", piece, seconds);
  }
  for (const auto& note : m.notes) text += fmt::format("note: {}\n", note);
  return text;
}

/// The profile that datasheet figures are taken from: `--gpu`, else the card's own, else the H100's.
Result<Hardware> base_of(const Common& common, const std::string& gpu) {
  if (common.gpu) return load_hardware(*common.gpu);
  if (auto known = find_hardware(gpu)) return known;
  return find_hardware("h100");
}

/// Writes what was measured where the command line says.
int write(const gpu::Measurements& measured, const Arguments& arguments, Streams& streams) {
  const std::string profile = arguments.text("--profile");
  if (!profile.empty()) {
    HEADROOM_CLI_ASSIGN(const Hardware base, base_of(arguments.common, measured.gpu), streams);
    std::vector<std::string> notes;
    HEADROOM_CLI_ASSIGN(Hardware fitted, gpu::fit_profile(measured, base, notes), streams);
    if (arguments.has("--host-memory")) {
      fitted.host_memory = measured.host_memory;
      fitted.sources["host"] = "the measured machine's physical memory";
    }
    HEADROOM_CLI_TRY(write_output(profile, write_yaml(write_hardware(fitted)), streams), streams);
    for (const std::string& note : notes) streams.err << "headroom: " << note << "\n";
    if (base.name != fitted.name)
      streams.err << "headroom: no profile is known for " << fitted.name << ": peaks are those of "
                  << base.name << "; state the card's own\n";
  }
  if (arguments.common.json)
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, gpu::to_json(measured), streams), streams);
  if (arguments.common.json != "-" && profile != "-" && !arguments.common.quiet)
    streams.out << table(measured);
  return kDone;
}

}  // namespace

Command calibrate_command() {
  return {
      .name = "calibrate",
      .summary = "measure this machine's GPUs into a hardware profile",
      .options = {{.name = "--nproc",
                   .value = "N",
                   .help = "GPUs of this machine to measure together (default: 1)"},
                  {.name = "--kernels", .value = "", .help = "also time each of Headroom's own kernels"},
                  {.name = "--no-rates", .value = "", .help = "measure memory only"},
                  {.name = "--python",
                   .value = "PROGRAM",
                   .help = "also measure what Python and PyTorch's dispatch take on this host, with this Python (one that "
                           "has PyTorch)"},
                  output_file("--profile", "write a hardware profile, for `--gpu FILE` of other commands"),
                  {.name = "--host-memory",
                   .value = "",
                   .help = "state this machine's memory as a node's in the profile"},
                  {.name = "--from",
                   .value = "FILE",
                   .help = "an earlier `--json` of this command instead of this machine"},
                  {.name = "--gpu",
                   .value = "NAME|FILE",
                   .help = "whose datasheet peaks a profile takes (default: the card's own)"}},
      .common = kJsonFlag,
      .run = calibrate};
}

int calibrate(const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const auto nproc, arguments.integer("--nproc", 1, 1024), streams);
  if (const std::string file = arguments.text("--from"); !file.empty()) {
    for (const char* flag : {"--nproc", "--kernels", "--no-rates", "--python"})
      if (arguments.has(flag))
        HEADROOM_CLI_TRY(
            Status(fail(Error{
                .message = "expected without --from, which measures nothing", .file = {}, .key = flag})),
            streams);
    HEADROOM_CLI_ASSIGN(const Document document, read_document(file), streams);
    HEADROOM_CLI_ASSIGN(const gpu::Measurements measured, gpu::read_measurements(document, file), streams);
    return write(measured, arguments, streams);
  }
  const std::optional<int> wanted = nproc ? std::optional<int>(static_cast<int>(*nproc)) : std::nullopt;
  HEADROOM_CLI_ASSIGN(const int cards, gpu::visible_cards(), streams);
  HEADROOM_CLI_ASSIGN(const auto place, launch::find_place(launch::process_environment, wanted), streams);
  if (!place && wanted.value_or(1) > 1) {
    HEADROOM_CLI_TRY(launch::enough_cards(*wanted, cards), streams);
    HEADROOM_CLI_ASSIGN(const auto words, launch::own_arguments(), streams);
    HEADROOM_CLI_ASSIGN(const int code, launch::spawn_ranks(*wanted, words), streams);
    return code;
  }
  const gpu::CalibrateOptions options{.rates = !arguments.has("--no-rates"),
                                      .kernels = arguments.has("--kernels")};
  HEADROOM_CLI_ASSIGN(gpu::Measurements measured, gpu::calibrate(options, place.value_or(launch::Place{})),
                      streams);
  if (place && place->rank != 0) return kDone;
  if (const std::string python = arguments.text("--python"); !python.empty())
    HEADROOM_CLI_TRY(gpu::measure_host_times(python, measured), streams);
  return write(measured, arguments, streams);
}

}  // namespace headroom::cli
