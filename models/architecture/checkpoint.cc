#include "models/architecture/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "models/base/input_files.h"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestHeader = std::uint64_t{100} << 20;  // the format's own bound
constexpr std::uintmax_t kLargestIndex = std::uintmax_t{256} << 20;

tl::unexpected<Error> bad(const fs::path& file, std::string message) {
  return fail(Error{.message = std::move(message), .file = file.string(), .key = {}});
}

Result<Json> parse(const fs::path& file, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return bad(file, "expected a JSON object, found something else");
  return json;
}

/// The header of a safetensors file: eight bytes of its length, little-endian, then JSON.
Result<Json> read_header(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  note_input(file.string());
  std::array<unsigned char, 8> prefix{};
  if (!in.read(reinterpret_cast<char*>(prefix.data()), prefix.size()))
    return bad(file, "expected a safetensors file, found fewer than 8 bytes");
  std::uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | prefix[i];
  if (length < 2 || length > kLargestHeader)
    return bad(file, fmt::format("expected a safetensors header of at most 100 MiB, found {} bytes", length));
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length)))
    return bad(file, fmt::format("expected a header of {} bytes, found the end of the file", length));
  return parse(file, text);
}

Status add_entries(const fs::path& file, Checkpoint& checkpoint) {
  HEADROOM_ASSIGN(const Json header, read_header(file));
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const Json shape = value.value("shape", Json());
    const Json offsets = value.value("data_offsets", Json());
    const auto whole = [](const Json& n) {
      return n.is_number_unsigned() && n.get<std::uint64_t>() < (1ULL << 60);
    };
    if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
        !std::all_of(shape.begin(), shape.end(), whole) ||
        !std::all_of(offsets.begin(), offsets.end(), whole))
      return bad(file, fmt::format("expected shape and data_offsets of {}, found none", name));
    Checkpoint::Entry& entry = checkpoint.entries.emplace_back();
    entry.name = name;
    entry.shape = shape.get<std::vector<std::int64_t>>();
    entry.bytes = offsets[1].get<std::int64_t>() - offsets[0].get<std::int64_t>();
    checkpoint.total += entry.bytes;
  }
  return {};
}

/// The files that the index names, and the total it states.
Result<std::set<std::string>> read_index(const fs::path& file, Bytes& total) {
  std::error_code code;
  if (fs::file_size(file, code) > kLargestIndex || code)
    return bad(file, "expected an index of at most 256 MiB");
  std::ifstream in(file, std::ios::binary);
  note_input(file.string());
  HEADROOM_ASSIGN(const Json index, parse(file, std::string(std::istreambuf_iterator<char>(in), {})));
  const Json map = index.value("weight_map", Json());
  if (!map.is_object()) return bad(file, "expected weight_map, found none");
  std::set<std::string> files;
  for (const auto& [name, where] : map.items()) {
    if (!where.is_string() || where.get<std::string>().find('/') != std::string::npos)
      return bad(file, fmt::format("expected a file name for {}", name));
    files.insert(where.get<std::string>());
  }
  const Json metadata = index.value("metadata", Json::object());
  const Json stated = metadata.is_object() ? metadata.value("total_size", Json()) : Json();
  total = stated.is_number() ? static_cast<Bytes>(stated.get<double>()) : 0;
  return files;
}

/// `3` of `model.layers.3.mlp…`: the layer that a name belongs to; -1 outside layers.
std::int64_t layer_of(std::string_view name) {
  for (std::string_view part : {".layers.", ".h.", ".blocks."}) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    std::int64_t index = 0;
    const char* from = name.data() + at + part.size();
    if (std::from_chars(from, name.data() + name.size(), index).ec == std::errc{}) return index;
  }
  return -1;
}

bool in_vision_tower(std::string_view name) {
  return name.find("visual.") != std::string_view::npos ||
         name.find("vision_tower.") != std::string_view::npos;
}

/// Scales of quantised weights and what else checkpoints keep beside parameters.
bool is_scale(std::string_view name) {
  for (std::string_view part : {"_scale", ".SCB", ".absmax", "nested_", "quant_map", "quant_state",
                                "weight_format", "e_score_correction_bias"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

/// Elements of the parameter that an entry stores; 4-bit weights are packed two a byte.
std::int64_t elements_of(const Checkpoint::Entry& entry, const Tensor* known) {
  std::int64_t count = 1;
  for (std::int64_t size : entry.shape) count *= size;
  const bool four_bit = known != nullptr && (known->dtype == DType::nf4 || known->dtype == DType::fp4);
  return four_bit || entry.name.ends_with("_blocks") ? 2 * count : count;
}

/// Where elements are summed: the layer and whether it is the vision tower's.
using Sums = std::map<std::pair<bool, std::int64_t>, std::int64_t>;

std::string place_name(std::pair<bool, std::int64_t> place) {
  const char* what = place.first ? "vision tower" : "model";
  return place.second < 0 ? fmt::format("{} outside layers", what)
                          : fmt::format("{} layer {}", what, place.second);
}

Bytes expected_bytes(const Architecture& model) {
  Bytes sum = 0;
  for (const Tensor& tensor : model.tensors)
    if (tensor.tied_to.empty() && (!tensor.buffer || is_scale(tensor.name)))
      sum += bytes_of(tensor.dtype, tensor.count());
  return sum;
}

}  // namespace

Result<std::optional<Checkpoint>> read_checkpoint(const std::string& directory) {
  const fs::path root(directory);
  std::error_code code;
  Checkpoint checkpoint;
  std::set<std::string> files;
  const fs::path index = root / "model.safetensors.index.json";
  Bytes stated = 0;
  if (fs::is_regular_file(index, code)) {
    checkpoint.source = index.string();
    HEADROOM_ASSIGN(files, read_index(index, stated));
  } else if (fs::is_regular_file(root / "model.safetensors", code)) {
    checkpoint.source = (root / "model.safetensors").string();
    files = {"model.safetensors"};
  } else {
    return std::nullopt;
  }
  for (const std::string& file : files) {
    if (fs::is_regular_file(root / file, code)) {
      HEADROOM_TRY(add_entries(root / file, checkpoint));
    } else {
      checkpoint.missing.push_back(file);
    }
  }
  if (!checkpoint.missing.empty()) {  // the headers that are there are not the whole
    checkpoint.entries.clear();
    checkpoint.total = stated;
  }
  return checkpoint;
}

std::vector<std::string> compare_checkpoint(const Architecture& model, const Checkpoint& checkpoint) {
  std::vector<std::string> differences;
  if (checkpoint.entries.empty()) {
    const Bytes expected = expected_bytes(model);
    if (checkpoint.total > 0 && checkpoint.total != expected)
      differences.push_back(fmt::format("{}: its weights are {} bytes, those of the config {} ({:+})",
                                        checkpoint.source, checkpoint.total, expected,
                                        checkpoint.total - expected));
    return differences;
  }
  Sums sums;
  for (const Tensor& tensor : model.tensors)
    if (tensor.tied_to.empty() && !tensor.buffer)
      sums[{tensor.place == Place::vision, layer_of(tensor.name)}] -= tensor.count();
  for (const Checkpoint::Entry& entry : checkpoint.entries) {
    const Tensor* known = model.find(entry.name);
    if (is_scale(entry.name) || (known != nullptr && (known->buffer || !known->tied_to.empty()))) continue;
    sums[{in_vision_tower(entry.name), layer_of(entry.name)}] += elements_of(entry, known);
  }
  for (const auto& [place, difference] : sums)
    if (difference != 0)
      differences.push_back(fmt::format("{}: {}: {:+} elements against the config", checkpoint.source,
                                        place_name(place), difference));
  return differences;
}

}  // namespace headroom
