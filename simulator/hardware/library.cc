#include "simulator/hardware/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "models/base/embedded.h"
#include "models/base/nearest.h"
#include "simulator/hardware/file.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_hardware();

namespace {

/// Lower case letters and digits only, without the maker's words: what names are compared by.
std::string comparable(std::string_view name) {
  std::string out;
  for (char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::string_view word : {"nvidia", "geforce", "tesla"})
    if (out.starts_with(word)) out.erase(0, word.size());
  return out;
}

struct Library {
  std::vector<Hardware> profiles;
  Status status;

  Library() : status(read()) {
    if (!status) profiles.clear();
  }

  Status read() {
    std::vector<std::pair<std::string, Document>> documents;
    for (const EmbeddedFile& file : embedded_hardware()) {
      HEADROOM_ASSIGN(Document document, parse_document(file.text, std::string(file.path)));
      documents.emplace_back(file.path, std::move(document));
    }
    const auto find = [&](const std::string& name) -> Result<Document> {
      for (const auto& [path, document] : documents)
        if (const Document* names = document.find("short_names"))
          for (const Document& known : names->items())
            if (known.text() == name) return document;
      return fail(fmt::format("no profile has the short name {}", name));
    };
    for (const auto& [path, document] : documents) {
      HEADROOM_ASSIGN(Hardware profile, read_hardware(document, path, find));
      profiles.push_back(std::move(profile));
    }
    return {};
  }
};

const Library& library() {
  static const Library instance;
  return instance;
}

/// Short names of up to three cards: those that extend `name` first, then near spellings and parts of it.
std::vector<std::string> suggestions(std::string_view name) {
  const std::string wanted = comparable(name);
  std::vector<std::pair<int, std::string>> found;
  for (const Hardware& profile : library().profiles) {
    std::pair<int, std::string> best{3, {}};
    for (const std::string& known : profile.short_names) {
      const std::string have = comparable(known);
      int distance = edit_distance(wanted, have);
      if (!wanted.empty() && have.find(wanted) != std::string::npos) {
        distance = 0;
      } else if (!have.empty() && wanted.find(have) != std::string::npos) {
        distance = std::min(distance, 2);
      }
      if (distance < best.first) best = {distance, known};
    }
    if (!best.second.empty()) found.push_back(std::move(best));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min<size_t>(found.size(), 3); ++i) out.push_back(found[i].second);
  return out;
}

bool is_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml") || name.ends_with(".yml") ||
         name.ends_with(".json");
}

}  // namespace

std::span<const Hardware> hardware_profiles() {
  return library().profiles;
}

Result<Hardware> find_hardware(std::string_view name) {
  HEADROOM_TRY(library().status);
  const std::string wanted = comparable(name);
  std::vector<const Hardware*> found;
  for (const Hardware& profile : library().profiles) {
    bool matches = comparable(profile.name) == wanted;
    for (const std::string& known : profile.short_names) matches = matches || comparable(known) == wanted;
    if (matches) found.push_back(&profile);
  }
  if (found.size() == 1) return *found.front();
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const Hardware* profile : found) names.push_back(profile->short_names.front());
    return fail(fmt::format("expected one GPU, found several named {}: {}", name, fmt::join(names, ", ")));
  }
  const auto near = suggestions(name);
  if (near.empty())
    return fail(fmt::format(
        "no hardware profile named {}; `headroom gpus` lists them, or give a profile's file", name));
  return fail(fmt::format("no hardware profile named {}; nearest: {}", name, fmt::join(near, ", ")));
}

Result<Hardware> load_hardware(const std::string& name) {
  if (!is_file(name)) return find_hardware(name);
  HEADROOM_ASSIGN(const Document document, read_document(name));
  return read_hardware(document, name, [](const std::string& base) -> Result<Document> {
    HEADROOM_ASSIGN(const Hardware profile, find_hardware(base));
    return write_hardware(profile);
  });
}

}  // namespace headroom
