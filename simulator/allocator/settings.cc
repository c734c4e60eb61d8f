#include "simulator/allocator/settings.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace headroom::allocator {
namespace {

tl::unexpected<Error> bad(std::string_view key, std::string message) {
  return headroom::fail(Error{.message = std::move(message), .file = {}, .key = std::string(key)});
}

// One option as written: a word, or a list of words in brackets.
struct Option {
  std::string key;
  std::string value;
  std::optional<std::vector<std::string>> list;
};

Result<std::vector<Option>> split_options(std::string_view text) {
  std::string packed;
  for (char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') packed += c;
  std::vector<Option> options;
  std::string_view rest = packed;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string key(rest.substr(0, std::min(rest.find(','), colon)));
    if (key.empty() || colon == std::string_view::npos || key.size() != colon)
      return bad(key, fmt::format("expected `option:value`, found `{}`", rest.substr(0, rest.find(','))));
    rest.remove_prefix(colon + 1);
    Option option{.key = key, .value = {}, .list = std::nullopt};
    if (rest.starts_with('[')) {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) return bad(key, "expected `]` after a list");
      std::string_view body = rest.substr(1, close - 1);
      option.list.emplace();
      while (true) {
        const std::size_t comma = body.find(',');
        option.list->emplace_back(body.substr(0, comma));
        if (comma == std::string_view::npos) break;
        body.remove_prefix(comma + 1);
      }
      rest.remove_prefix(close + 1);
      if (!rest.empty() && rest.front() != ',')
        return bad(key, fmt::format("expected `,` after the list, found `{}`", rest));
    } else {
      const std::size_t comma = rest.find(',');
      option.value = std::string(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma, rest.size()));
    }
    if (!rest.empty()) rest.remove_prefix(1);  // PyTorch accepts a comma at the end
    options.push_back(std::move(option));
  }
  return options;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<bool> boolean(const Option& option) {
  if (option.value == "True") return true;
  if (option.value == "False") return false;
  return bad(option.key, fmt::format("expected True or False, found `{}`", option.value));
}

Result<Bytes> mebibytes(const Option& option, std::int64_t least) {
  const auto value = number<std::int64_t>(option.value);
  if (!value || *value < least || *value > (std::int64_t{1} << 40))
    return bad(option.key,
               fmt::format("expected a whole number of MiB of at least {}, found `{}`", least, option.value));
  return *value * kMiB;
}

Result<double> fraction(const Option& option, bool open) {
  const auto value = number<double>(option.value);
  const bool inside = value && (open ? *value > 0 && *value < 1 : *value >= 0 && *value <= 1);
  if (!inside) {
    return bad(option.key,
               fmt::format("expected a number {}, found `{}`",
                           open ? "between 0 and 1, both excluded" : "from 0 to 1", option.value));
  }
  return *value;
}

Result<int> divisions(const Option& option, std::string_view text, bool zero) {
  const auto value = number<int>(text);
  const bool power = value && *value > 0 && std::has_single_bit(static_cast<unsigned>(*value));
  if (!power && !(zero && value && *value == 0))
    return bad(option.key, fmt::format("expected a power of two, found `{}`", text));
  return *value;
}

// `4`, or `[256:1,512:2,>:8]`: sizes in MiB and their divisions. The first size also speaks for all below it,
// sizes between two listed ones keep plain rounding, and `>` is for all above the last listed one.
Status read_divisions(const Option& option, std::array<int, 16>& out) {
  out.fill(0);
  if (!option.list) {
    HEADROOM_ASSIGN(const int value, divisions(option, option.value, false));
    out.fill(value);
    return {};
  }
  std::size_t last = 0;
  bool first = true;
  for (const std::string& item : *option.list) {
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos)
      return bad(option.key, fmt::format("expected `MiB:divisions`, found `{}`", item));
    HEADROOM_ASSIGN(const int value, divisions(option, std::string_view(item).substr(colon + 1), true));
    const std::string_view size = std::string_view(item).substr(0, colon);
    if (size == ">") {
      for (std::size_t i = first ? 0 : last + 1; i < out.size(); ++i) out[i] = value;
      if (&item != &option.list->back()) return bad(option.key, "expected `>` as the last item of the list");
      return {};
    }
    const auto mib = number<std::uint64_t>(size);
    if (!mib || !std::has_single_bit(*mib))
      return bad(option.key,
                 fmt::format("expected a size in MiB that is a power of two, or `>`, found `{}`", size));
    last = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(*mib)) - 1, out.size() - 1);
    if (first) std::fill_n(out.begin(), last, value);
    out[last] = value;
    first = false;
  }
  return {};
}

// The options in the order in which they are read: max_split_size_mb and max_non_split_rounding_mb have
// large_segment_size_mb as their least value.
enum class Key {
  large_segment_size_mb,
  max_split_size_mb,
  max_non_split_rounding_mb,
  roundup_power2_divisions,
  garbage_collection_threshold,
  expandable_segments,
  per_process_memory_fraction,
  graph_capture_record_stream_reuse,
  backend,
  release_lock_on_cudamalloc,
  pinned_use_cuda_host_register,
  pinned_num_register_threads,
  pinned_use_background_threads,
  pinned_reserve_segment_size_mb,
  pinned_max_round_threshold_mb,
  pinned_max_cached_size_mb
};
constexpr std::array<std::string_view, 16> kKeys = {"large_segment_size_mb",
                                                    "max_split_size_mb",
                                                    "max_non_split_rounding_mb",
                                                    "roundup_power2_divisions",
                                                    "garbage_collection_threshold",
                                                    "expandable_segments",
                                                    "per_process_memory_fraction",
                                                    "graph_capture_record_stream_reuse",
                                                    "backend",
                                                    "release_lock_on_cudamalloc",
                                                    "pinned_use_cuda_host_register",
                                                    "pinned_num_register_threads",
                                                    "pinned_use_background_threads",
                                                    "pinned_reserve_segment_size_mb",
                                                    "pinned_max_round_threshold_mb",
                                                    "pinned_max_cached_size_mb"};

Status read_backend(const Option& option, AllocatorSettings& s) {
  if (option.value == "native") {
    s.backend = AllocatorSettings::Backend::native;
  } else if (option.value == "cudaMallocAsync") {
    s.backend = AllocatorSettings::Backend::cuda_malloc_async;
  } else {
    return bad(option.key, fmt::format("expected native or cudaMallocAsync, found `{}`", option.value));
  }
  return {};
}

Status read_threads(const Option& option, AllocatorSettings& s) {
  const auto value = number<int>(option.value);
  if (!value || *value < 1 || *value > 128 || !std::has_single_bit(static_cast<unsigned>(*value)))
    return bad(option.key, fmt::format("expected a power of two up to 128, found `{}`", option.value));
  s.pinned_num_register_threads = *value;
  return {};
}

template <typename T>
Status store(T& target, Result<T> value) {
  HEADROOM_ASSIGN(target, std::move(value));
  return {};
}

Status read_option(Key key, const Option& option, AllocatorSettings& s) {
  const std::int64_t large = s.large_segment_size / kMiB;
  switch (key) {
    case Key::large_segment_size_mb:
      return store(s.large_segment_size, mebibytes(option, 11));
    case Key::max_split_size_mb:
      return store(s.max_split_size, mebibytes(option, large));
    case Key::max_non_split_rounding_mb:
      return store(s.max_non_split_rounding, mebibytes(option, large));
    case Key::roundup_power2_divisions:
      return read_divisions(option, s.roundup_power2_divisions);
    case Key::garbage_collection_threshold:
      return store(s.garbage_collection_threshold, fraction(option, true));
    case Key::expandable_segments:
      return store(s.expandable_segments, boolean(option));
    case Key::per_process_memory_fraction: {
      HEADROOM_ASSIGN(s.per_process_memory_fraction, fraction(option, false));
      return {};
    }
    case Key::graph_capture_record_stream_reuse:
      return store(s.graph_capture_record_stream_reuse, boolean(option));
    case Key::backend:
      return read_backend(option, s);
    case Key::release_lock_on_cudamalloc:
      return store(s.release_lock_on_cudamalloc, boolean(option));
    case Key::pinned_use_cuda_host_register:
      return store(s.pinned_use_cuda_host_register, boolean(option));
    case Key::pinned_num_register_threads:
      return read_threads(option, s);
    case Key::pinned_use_background_threads:
      return store(s.pinned_use_background_threads, boolean(option));
    case Key::pinned_reserve_segment_size_mb:
      return store(s.pinned_reserve_segment_size, mebibytes(option, 1));
    case Key::pinned_max_round_threshold_mb:
      return store(s.pinned_max_round_threshold, mebibytes(option, 0));
    case Key::pinned_max_cached_size_mb:
      return store(s.pinned_max_cached_size, mebibytes(option, 0));
  }
  return {};
}

std::string_view nearest(std::string_view word) {
  std::string_view best;
  std::size_t least = word.size() / 2 + 1;
  for (std::string_view key : kKeys) {
    std::vector<std::size_t> row(key.size() + 1);
    for (std::size_t j = 0; j <= key.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= key.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i - 1] == key[j - 1] ? 0 : 1);
        diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = key;
    }
  }
  return best;
}

}  // namespace

namespace {

Result<AllocatorSettings> read_settings(std::string_view text, AllocatorSettings settings) {
  HEADROOM_ASSIGN(const std::vector<Option> options, split_options(text));
  std::array<const Option*, kKeys.size()> given{};
  for (const Option& option : options) {
    const auto key = std::find(kKeys.begin(), kKeys.end(), option.key);
    if (key == kKeys.end()) {
      const std::string_view near = nearest(option.key);
      return bad(option.key, "unknown allocator option" +
                                 (near.empty() ? "" : fmt::format("; did you mean `{}`?", near)));
    }
    if (option.list && *key != "roundup_power2_divisions")
      return bad(option.key, "expected one value, found a list");
    given[static_cast<std::size_t>(key - kKeys.begin())] = &option;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] != nullptr) HEADROOM_TRY(read_option(static_cast<Key>(i), *given[i], settings));
    if (static_cast<Key>(i) == Key::large_segment_size_mb)
      settings.max_non_split_rounding = settings.large_segment_size;
  }
  return settings;
}

}  // namespace

Result<AllocatorSettings> parse_allocator_settings(std::string_view text) {
  return read_settings(text, {});
}

Result<AllocatorSettings> change_allocator_settings(const AllocatorSettings& previous,
                                                    std::string_view text) {
  AllocatorSettings kept = previous;
  kept.max_split_size = kUnlimited;
  kept.roundup_power2_divisions = {};
  kept.garbage_collection_threshold = 0;
  return read_settings(text, kept);
}

}  // namespace headroom::allocator
