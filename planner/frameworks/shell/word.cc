#include "planner/frameworks/shell/word.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::shell {

void Word::append(const Word& more) {
  for (Unknown part : more.unknown) {
    part.at += text.size();
    unknown.push_back(std::move(part));
  }
  text += more.text;
}

Word unknown_word(std::string text, std::string name, std::string why, const Place& place) {
  Word out;
  out.place = place;
  out.unknown.push_back({.at = 0,
                         .size = text.size(),
                         .name = std::move(name),
                         .why = std::move(why),
                         .file = place.file,
                         .line = place.line});
  out.text = std::move(text);
  return out;
}

Word unset_word(std::string text, std::string name, std::string why, const Place& place) {
  Word out = unknown_word(std::move(text), std::move(name), std::move(why), place);
  out.unknown.front().unset = true;
  return out;
}

Word part_of(const Word& word, std::size_t begin, std::size_t end) {
  Word out;
  out.place = word.place;
  for (const Unknown& part : word.unknown) {
    const bool touches = part.at < end && part.at + part.size > begin;
    const bool empty_inside = part.size == 0 && part.at >= begin && part.at <= end;
    if (!touches && !empty_inside) continue;
    begin = std::min(begin, part.at);
    end = std::max(end, part.at + part.size);
  }
  out.text = word.text.substr(begin, end - begin);
  for (Unknown part : word.unknown) {
    if (part.at < begin || part.at + part.size > end) continue;
    part.at -= begin;
    out.unknown.push_back(std::move(part));
  }
  return out;
}

std::string what_is_missing(const Word& word) {
  if (word.known()) return {};
  const Unknown& first = word.unknown.front();
  const std::string text = word.text.substr(first.at, std::min<std::size_t>(first.size, 80));
  if (first.name.empty()) return fmt::format("{}: {}", text, first.why);
  return fmt::format("{}: {}; give --env {}=VALUE", text, first.why, first.name);
}

}  // namespace headroom::shell
