#include "simulator/device/margin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "models/base/embedded.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_margins();

namespace {

tl::unexpected<Error> at(const Document* where, const std::string& file, std::string key,
                         std::string message) {
  return fail(Error{.message = std::move(message),
                    .file = file,
                    .line = where == nullptr ? 0 : where->line(),
                    .key = std::move(key)});
}

}  // namespace

Result<Margins> Margins::read(const Document& document, const std::string& file) {
  Margins margins;
  struct Kind {
    const char* key;
    Margin* into;
    double most_fraction;
    Bytes most_bytes;
  };
  for (const Kind& kind :
       {Kind{"default", &margins.default_, 0.03, kGiB}, Kind{"engine", &margins.engine_, 0.05, 2 * kGiB}}) {
    const Document* entry = document.find(kind.key);
    const Document* fraction = entry == nullptr ? nullptr : entry->find("fraction");
    const Document* bytes = entry == nullptr ? nullptr : entry->find("bytes");
    if (fraction == nullptr || bytes == nullptr)
      return at(entry, file, kind.key, "expected {fraction: …, bytes: …}");
    kind.into->fraction = fraction->as_double().value_or(-1);
    HEADROOM_ASSIGN(kind.into->bytes, parse_bytes(bytes->text()));
    if (kind.into->fraction < 0 || kind.into->fraction > kind.most_fraction ||
        kind.into->bytes > kind.most_bytes)
      return at(entry, file, kind.key,
                fmt::format("expected a fraction of at most {} and at most {}", kind.most_fraction,
                            format_gib(kind.most_bytes)));
  }
  if (const Document* phases = document.find("phases"))
    for (const auto& [phase, kind] : phases->entries()) {
      if (kind.text() != "engine" && kind.text() != "default")
        return at(&kind, file, "phases." + phase, "expected engine or default, found " + kind.text());
      margins.phases_.emplace_back(phase, kind.text() == "engine");
    }
  return margins;
}

const Margins& Margins::builtin() {
  static const Margins margins = [] {
    const EmbeddedFile& file = embedded_margins().front();
    const std::string name(file.path);
    const Result<Document> document = parse_document(file.text, name);
    Result<Margins> read = document ? Margins::read(*document, name) : tl::unexpected(document.error());
    if (!read) {  // the build's own file: a test reads it
      std::fprintf(stderr, "headroom: %s\n", read.error().text().c_str());
      std::abort();
    }
    return *read;
  }();
  return margins;
}

Bytes Margins::of(const std::string& phase, bool engine_awake, Bytes total) const {
  const auto listed =
      std::find_if(phases_.begin(), phases_.end(), [&](const auto& row) { return row.first == phase; });
  const Margin& margin = (listed == phases_.end() ? engine_awake : listed->second) ? engine_ : default_;
  return std::max(margin.bytes, static_cast<Bytes>(margin.fraction * static_cast<double>(total)));
}

}  // namespace headroom
