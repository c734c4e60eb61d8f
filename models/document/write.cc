#include <string>

#include "models/document/document.h"

namespace headroom {
namespace {

bool needs_quotes(const Document& value) {
  const std::string& text = value.text();
  if (value.quoted()) return true;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return true;
  if (text.front() == ' ' || text.back() == ' ') return true;
  if (std::string_view("!&*-?|>@`\"'%#{}[],:").find(text.front()) != std::string_view::npos &&
      !value.as_double().has_value())
    return true;
  return text.find(": ") != std::string::npos || text.find(" #") != std::string::npos || text.back() == ':' ||
         text.find_first_of("\n\t\r") != std::string::npos;
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string scalar(const Document& value) {
  return needs_quotes(value) ? quote(value.text()) : value.text();
}

bool inline_list(const Document& value) {
  for (const Document& item : value.items())
    if (!item.is_scalar() && !item.is_null()) return false;
  return true;
}

/// A map that stands in a list and fits one line: `{do: train, role: actor}`.
bool inline_map(const Document& value) {
  constexpr std::size_t kLongest = 100;
  if (!value.is_map() || value.entries().empty()) return false;
  std::size_t length = 0;
  for (const auto& [key, entry] : value.entries()) {
    if (entry.is_map() || (entry.is_list() && !inline_list(entry))) return false;
    length += key.size() + entry.text().size() + 4;
    for (const Document& item : entry.items()) length += item.text().size() + 2;
  }
  return length <= kLongest;
}

/// A scalar inside brackets, where commas and brackets end it.
std::string inside_brackets(const Document& value) {
  if (value.is_null()) return "null";
  return value.text().find_first_of(",[]{}") == std::string::npos ? scalar(value) : quote(value.text());
}

std::string list_in_brackets(const Document& value) {
  std::string out = "[";
  for (const Document& item : value.items()) out += (out.size() > 1 ? ", " : "") + inside_brackets(item);
  return out + "]";
}

std::string map_in_braces(const Document& value) {
  std::string out = "{";
  for (const auto& [key, entry] : value.entries())
    out += (out.size() > 1 ? ", " : "") + inside_brackets(Document::scalar(key)) + ": " +
           (entry.is_list() ? list_in_brackets(entry) : inside_brackets(entry));
  return out + "}";
}

void write(const Document& value, int indent, std::string& out);

/// ` value\n` after a `key:` or the nested lines below it.
void write_after_key(const Document& value, int indent, std::string& out) {
  const bool nested =
      (value.is_map() && !value.entries().empty()) || (value.is_list() && !inline_list(value));
  out += nested ? "\n" : " ";
  write(value, indent, out);
}

void write(const Document& value, int indent, std::string& out) {
  const std::string pad(static_cast<size_t>(indent), ' ');
  switch (value.kind()) {
    case Document::Kind::null:
      out += "null\n";
      return;
    case Document::Kind::scalar:
      out += scalar(value) + "\n";
      return;
    case Document::Kind::list:
      if (inline_list(value)) {
        out += list_in_brackets(value) + "\n";
        return;
      }
      for (const Document& item : value.items()) {
        if (inline_map(item)) {
          out += pad + "- " + map_in_braces(item) + "\n";
          continue;
        }
        std::string body;
        write(item, indent + 2, body);
        const size_t first = body.find_first_not_of(' ');
        out += pad + "- " + body.substr(first == std::string::npos ? 0 : first);
      }
      return;
    case Document::Kind::map:
      if (value.entries().empty()) {
        out += "{}\n";
        return;
      }
      for (const auto& [key, entry] : value.entries()) {
        const Document name = Document::scalar(key);
        out += pad + (needs_quotes(name) ? quote(key) : key) + ":";
        write_after_key(entry, indent + 2, out);
      }
      return;
  }
}

}  // namespace

std::string write_yaml(const Document& document) {
  std::string out;
  write(document, 0, out);
  return out;
}

}  // namespace headroom
