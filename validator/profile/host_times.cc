#include "validator/profile/host_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <unistd.h>

#include "models/base/embedded.h"

namespace headroom {
std::span<const EmbeddedFile> embedded_host_times();
}

namespace headroom::gpu {
namespace {

enum class Kind { python, operation, product, gradient, product_gradient, checkpoint };

/// A piece of host_times.py and its seconds where the shipped profiles' host times were fitted: PyTorch 2.11, Python 3.12
/// on hosts of 16 and 32 cores of an Intel Xeon. Measured by the script on such a host
/// (validator/results/h200-2026-11-29-3/host_times.json), over 1.05: as much longer as then the same calls took in the
/// sessions of the fit (host.json of h200-2026-11-28-3 and 2xh200-2026-11-29, geometric means).
struct Piece {
  const char* name;
  Kind kind;
  double there;
};
constexpr Piece kPieces[] = {
    {"module", Kind::python, 1.82e-6},          {"multinomial", Kind::python, 154e-6},
    {"add", Kind::operation, 9.56e-6},          {"mul", Kind::operation, 11e-6},
    {"silu", Kind::operation, 9.56e-6},          {"cast", Kind::operation, 11.3e-6},
    {"cat", Kind::operation, 11.5e-6},          {"softmax", Kind::operation, 20.7e-6},
    {"linear", Kind::product, 24.5e-6},         {"backward mul", Kind::gradient, 24.6e-6},
    {"backward silu", Kind::gradient, 19.5e-6}, {"backward softmax", Kind::gradient, 22.8e-6},
    {"backward linear", Kind::product_gradient, 54.6e-6}, {"checkpoint", Kind::checkpoint, 167e-6},
};

/// Pieces that are figures themselves.
struct Direct {
  const char* name;
  double HostTimes::*figure;
};
constexpr Direct kDirect[] = {{"norm", &HostTimes::norm_parameter},
                              {"step foreach", &HostTimes::foreach_parameter},
                              {"step fused", &HostTimes::fused_parameter},
                              {"step loop", &HostTimes::loop_parameter}};

struct Scaled {
  double HostTimes::*figure;
  Kind kind;
};
constexpr Scaled kScaled[] = {{&HostTimes::allocation, Kind::operation},
                              {&HostTimes::launch, Kind::operation},
                              {&HostTimes::product, Kind::product},
                              {&HostTimes::gradient, Kind::gradient},
                              {&HostTimes::product_gradient, Kind::product_gradient},
                              {&HostTimes::checkpoint, Kind::checkpoint},
                              {&HostTimes::model_call, Kind::python},
                              {&HostTimes::token, Kind::python},
                              {&HostTimes::recompute, Kind::python},
                              {&HostTimes::module_visit, Kind::python},
                              {&HostTimes::history, Kind::python},
                              {&HostTimes::megatron_linear, Kind::python},
                              {&HostTimes::megatron_linear_gradient, Kind::python},
                              {&HostTimes::expert_exchange, Kind::python},
                              {&HostTimes::unshard, Kind::python},
                              {&HostTimes::reduce, Kind::python},
                              {&HostTimes::engine_step, Kind::python},
                              {&HostTimes::engine_sequence, Kind::python}};

/// How many times as long as there pieces of a kind take here: geometric mean. Python's own work is in all of them.
double slower(const Measurements& m, Kind kind) {
  double sum = 0;
  int count = 0;
  for (const Piece& piece : kPieces) {
    const auto here = m.host_seconds.find(piece.name);
    if ((kind != Kind::python && piece.kind != kind) || here == m.host_seconds.end()) continue;
    sum += std::log(here->second / piece.there);
    ++count;
  }
  return count == 0 ? 1 : std::exp(sum / count);
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// A file of the script for as long as this lives.
class Script {
 public:
  Script() : path_(std::filesystem::temp_directory_path() / fmt::format("headroom-host-times-{}.py", getpid())) {
    std::ofstream file(path_);
    for (const EmbeddedFile& script : embedded_host_times()) file << script.text;
  }
  ~Script() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

Status measure_host_times(const std::string& python, Measurements& out) {
  const Script script;
  const std::string command = fmt::format("{} {} 2>&1", quoted(python), quoted(script.path()));
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return fail(fmt::format("{}: can't be started", python));
  std::string text;
  std::array<char, 4096> part;
  for (std::size_t n; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), n);
  const int code = pclose(pipe);
  if (code != 0) {
    const auto end = text.find_last_not_of('\n');
    const auto last = end == std::string::npos ? std::string::npos : text.rfind('\n', end);
    const std::string said =
        text.substr(last == std::string::npos ? 0 : last + 1, end == std::string::npos ? 0 : end - last);
    return fail(Error{.message = fmt::format("expected a Python with PyTorch that sees a GPU, {} ended with: {}",
                                             python, said.empty() ? "nothing" : said),
                      .file = {},
                      .key = "--python"});
  }
  // Warnings of libraries may stand before what the script prints.
  const auto at = text.rfind("\n{");
  return read_host_times(at == std::string::npos ? text : text.substr(at + 1), out);
}

Status read_host_times(const std::string& text, Measurements& out) {
  const nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
  const auto wrong = [](const std::string& what) {
    return fail(Error{.message = "expected the times of host_times.py, " + what, .file = {}, .key = "--python"});
  };
  if (!read.is_object() || !read.contains("seconds") || !read["seconds"].is_object())
    return wrong("found no object with `seconds`");
  std::map<std::string, double> seconds;
  const auto take = [&](const char* name) {
    const auto found = read["seconds"].find(name);
    if (found == read["seconds"].end() || !found->is_number() || !(found->get<double>() > 0)) return false;
    seconds[name] = found->get<double>();
    return true;
  };
  for (const Piece& piece : kPieces)
    if (!take(piece.name)) return wrong(fmt::format("found no positive time of `{}`", piece.name));
  for (const Direct& piece : kDirect)
    if (!take(piece.name)) return wrong(fmt::format("found no positive time of `{}`", piece.name));
  out.host_seconds = std::move(seconds);
  const auto word = [](const nlohmann::json& in, const char* key) {
    return in.contains(key) && in[key].is_string() ? in[key].get<std::string>() : std::string();
  };
  out.host = word(read, "host");
  if (read.contains("cores") && read["cores"].is_number_integer())
    out.host += fmt::format(", {} cores", read["cores"].get<std::int64_t>());
  if (read.contains("versions") && read["versions"].is_object())
    for (const char* what : {"pytorch", "python"})
      if (const std::string version = word(read["versions"], what); !version.empty()) out.versions[what] = version;
  return {};
}

void fit_host_times(const Measurements& m, Hardware& out, std::vector<std::string>& notes) {
  if (m.host_seconds.empty()) return;
  HostTimes& times = out.host_times;
  for (const Scaled& one : kScaled) times.*one.figure *= slower(m, one.kind);
  for (const Direct& one : kDirect)
    if (const auto here = m.host_seconds.find(one.name); here != m.host_seconds.end())
      times.*one.figure = here->second;
  notes.push_back(
      fmt::format("host: {:.2f} times the shipped profiles' machine; segments of the driver taken over", slower(m, Kind::python)));
  std::string how = "measured on " + (m.host.empty() ? "this host" : m.host);
  for (const auto& [what, version] : m.versions) how += fmt::format(", {} {}", what, version);
  out.sources["host_times"] =
      how + ": small operations beside those of the base's machine; the base's: " + out.sources["host_times"];
}

}  // namespace headroom::gpu
