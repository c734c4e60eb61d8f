#include <fmt/format.h>

#include "models/base/printable.h"
#include "planner/writers/columns.h"
#include "planner/writers/markdown.h"
#include "planner/writers/study/rows.h"
#include "planner/writers/study/study.h"

namespace headroom::writers {
namespace {

using Align = Columns::Align;

std::vector<Align> alignment() {
  std::vector<Align> out(study_heads().size(), Align::right);
  out[0] = out[1] = out[7] = out[11] = Align::left;
  return out;
}

std::string ascii(std::string text) {
  for (const auto& [wide, narrow] : {std::pair{"·", "-"}, std::pair{"×", "x"}})
    for (std::size_t at = 0; (at = text.find(wide, at)) != std::string::npos; at += 1)
      text.replace(at, std::string_view(wide).size(), narrow);
  return text;
}

}  // namespace

std::string study_table(const study::Results& results, bool plain) {
  std::string out = printable(results.name) + "\n" + study_totals(results) + "; GiB\n";
  for (const JobCells& job : by_job(results)) {
    out += "\n" + printable(job_title(job)) + "\n";
    Columns columns(alignment());
    columns.add(study_heads());
    for (const study::Cell* cell : job.cells) {
      std::vector<std::string> row = study_row(results, *cell);
      for (std::string& text : row) text = printable(text);
      columns.add(std::move(row));
    }
    out += columns.text("  ");
  }
  return plain ? ascii(out) : out;
}

std::string study_markdown(const study::Results& results) {
  std::string out = fmt::format("## {}\n\n{}. GiB.\n", markdown_text(results.name), study_totals(results));
  std::string rule = "|";
  for (const Align one : alignment()) rule += one == Align::left ? " --- |" : " ---: |";
  for (const JobCells& job : by_job(results)) {
    out += fmt::format("\n### {}\n\n| {} |\n{}\n", markdown_text(job_title(job)), fmt::join(study_heads(), " | "), rule);
    for (const study::Cell* cell : job.cells) {
      out += "|";
      for (const std::string& text : study_row(results, *cell)) out += " " + markdown_text(text) + " |";
      out += "\n";
    }
  }
  return out;
}

}  // namespace headroom::writers
