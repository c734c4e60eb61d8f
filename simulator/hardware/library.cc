#include "simulator/hardware/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <mutex>

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

/// An embedded profile, read when it is first needed.
struct File {
  std::once_flag document_once, profile_once;
  Result<Document> document = Document();
  Result<Hardware> profile = Hardware();
};

File& file(std::size_t index) {
  static std::vector<File> files(embedded_hardware().size());
  return files[index];
}

const Result<Document>& document(std::size_t index) {
  const EmbeddedFile& embedded = embedded_hardware()[index];
  File& entry = file(index);
  std::call_once(entry.document_once,
                 [&] { entry.document = parse_document(embedded.text, std::string(embedded.path)); });
  return entry.document;
}

/// Whether the file mentions a name, letters and digits compared: only such files need be read to find it.
bool mentions(std::size_t index, const std::string& comparable_name) {
  std::string text;
  for (char c : embedded_hardware()[index].text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text.find(comparable_name) != std::string::npos;
}

Result<Document> document_of(const std::string& short_name) {
  for (std::size_t i = 0; i < embedded_hardware().size(); ++i) {
    if (!mentions(i, comparable(short_name))) continue;
    if (!document(i)) return fail(document(i).error());
    if (const Document* names = document(i)->find("short_names"))
      for (const Document& known : names->items())
        if (known.text() == short_name) return document(i);
  }
  return fail(fmt::format("no profile has the short name {}", short_name));
}

const Result<Hardware>& profile(std::size_t index) {
  File& entry = file(index);
  std::call_once(entry.profile_once, [&] {
    const Result<Document>& read = document(index);
    if (read)
      entry.profile = read_hardware(*read, std::string(embedded_hardware()[index].path), document_of);
    else
      entry.profile = fail(read.error());
  });
  return entry.profile;
}

/// Short names of up to three cards: those that extend `name` first, then near spellings and parts of it.
std::vector<std::string> suggestions(std::string_view name) {
  const std::string wanted = comparable(name);
  std::vector<std::pair<int, std::string>> found;
  for (const Hardware& profile : hardware_profiles()) {
    std::pair<int, std::string> best{3, {}};
    for (const std::string& known : profile.short_names) {
      const std::string have = comparable(known);
      int distance = length_difference(wanted, have);  // at least; what is longer yet is no misspelling
      if (distance < best.first) distance = edit_distance(wanted, have);
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
  static const std::vector<Hardware> all = [] {
    std::vector<Hardware> profiles;
    for (std::size_t i = 0; i < embedded_hardware().size(); ++i) {
      if (!profile(i)) return std::vector<Hardware>();
      profiles.push_back(*profile(i));
    }
    return profiles;
  }();
  return all;
}

Result<Hardware> find_hardware(std::string_view name) {
  const std::string wanted = comparable(name);
  std::vector<const Hardware*> found;
  for (std::size_t i = 0; i < embedded_hardware().size(); ++i) {
    if (!mentions(i, wanted)) continue;
    if (!profile(i)) return fail(profile(i).error());
    const Hardware& one = *profile(i);
    bool matches = comparable(one.name) == wanted;
    for (const std::string& known : one.short_names) matches = matches || comparable(known) == wanted;
    if (matches) found.push_back(&one);
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
