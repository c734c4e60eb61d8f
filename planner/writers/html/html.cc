#include "planner/writers/html/html.h"

#include <cstddef>

#include "models/base/embedded.h"
#include "planner/writers/html/page.h"
#include "planner/writers/report_json.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_html();

}  // namespace headroom

namespace headroom::writers {
namespace {

constexpr std::string_view kPlace = "@DATA@";

/// JSON inside a <script>: nothing in it may end the element or begin a comment.
std::string inside_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else if (c == '\x7f') {  // a control character that JSON need not escape
      out += "\\u007f";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string page_with(std::string_view page, std::string_view json) {
  const std::size_t at = page.find(kPlace);
  std::string out(page.substr(0, at));
  out += inside_script(json);
  return out += page.substr(at + kPlace.size());
}

std::string html_page(std::string_view reports) {
  return page_with(embedded_html().front().text, "{\"reports\":[" + std::string(reports) + "]}");
}

std::string html(std::span<const Report> reports) {
  std::string all;
  for (const Report& report : reports) {
    const auto json = report_json(report);
    all += (all.empty() ? "" : ",") +
           json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  return html_page(all);
}

}  // namespace headroom::writers
