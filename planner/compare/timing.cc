#include "planner/compare/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace headroom::compare {
namespace {

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

/// Place of each value among all, equal ones sharing the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) out[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return out;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double both = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? both / std::sqrt(xx * yy) : 0;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// A phase whose seconds a prediction does not tell apart.
bool equal_work(const TimedRow& a, const TimedRow& b) {
  constexpr double kEqual = 1.01;
  return a.phase == b.phase &&
         std::max(a.predicted, b.predicted) <= kEqual * std::min(a.predicted, b.predicted);
}

std::string summary_line(const std::string& name, std::span<const TimedRow> rows) {
  const TimeSummary s = summarise(rows);
  return fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {:.3f} |\n", name, s.rows, s.median,
                     s.p90, s.worst, s.median_ratio, s.spearman);
}

}  // namespace

std::vector<TimedRow> timed_rows(const std::vector<Row>& rows, bool whole) {
  std::vector<TimedRow> out;
  for (const Row& row : rows) {
    const MeasuredPhase& measured = row.measured;
    if (measured.step < 1 || measured.depth > 0 || !measured.seconds || *measured.seconds <= 0 ||
        !row.predicted)
      continue;
    if (whole && !out.empty() && out.back().run == row.name && out.back().step == measured.step) {
      out.back().predicted += row.spent.total();
      out.back().measured += *measured.seconds;
      out.back().spent += row.spent;
      out.back().emptied = out.back().emptied || measured.emptied;
      continue;
    }
    out.push_back({.run = row.name,
                   .phase = whole ? "step" : measured.phase,
                   .step = measured.step,
                   .predicted = row.spent.total(),
                   .measured = *measured.seconds,
                   .spent = row.spent,
                   .emptied = measured.emptied});
  }
  return out;
}

TimeSummary summarise(std::span<const TimedRow> rows) {
  std::vector<double> errors, ratios, predicted, measured;
  for (const TimedRow& row : rows) {
    errors.push_back(std::abs(row.error()));
    ratios.push_back(row.predicted / row.measured);
    predicted.push_back(row.predicted);
    measured.push_back(row.measured);
  }
  return {.rows = rows.size(),
          .median = quantile(errors, 0.5),
          .p90 = quantile(errors, 0.9),
          .worst = quantile(errors, 1),
          .median_ratio = quantile(ratios, 0.5),
          .spearman = spearman(predicted, measured)};
}

Spread spread_of_equal_work(std::span<const TimedRow> rows) {
  std::vector<double> more;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = i + 1; k < rows.size(); ++k) {
      const TimedRow &a = rows[i], &b = rows[k];
      if (a.run == b.run || !equal_work(a, b)) continue;
      more.push_back(100 * (std::max(a.measured, b.measured) / std::min(a.measured, b.measured) - 1));
    }
  return {.pairs = more.size(),
          .median = quantile(more, 0.5),
          .p90 = quantile(more, 0.9),
          .worst = quantile(more, 1)};
}

TimeSummary errors_of_middles(std::span<const TimedRow> rows) {
  std::vector<TimedRow> out;
  for (const TimedRow& row : rows) {
    std::vector<double> logarithms;
    bool others = false;
    for (const TimedRow& other : rows) {
      if (!equal_work(row, other)) continue;
      logarithms.push_back(std::log(other.measured));
      others = others || other.run != row.run;
    }
    if (!others) continue;
    out.push_back(row);
    out.back().predicted = std::exp(middle(std::move(logarithms)));
  }
  return summarise(out);
}

TimeSummary errors_at_own_speed(std::span<const TimedRow> rows) {
  std::map<std::string, std::vector<double>> ratios;
  for (const TimedRow& row : rows) ratios[row.run].push_back(std::log(row.measured / row.predicted));
  std::vector<TimedRow> out(rows.begin(), rows.end());
  for (TimedRow& row : out) row.predicted *= std::exp(middle(ratios[row.run]));
  return summarise(out);
}

std::string time_document(const std::vector<Row>& rows) {
  const std::vector<TimedRow> all = timed_rows(rows), steps = timed_rows(rows, true);
  std::map<std::string, std::vector<TimedRow>> phases;
  std::vector<TimedRow> moving;
  for (const TimedRow& row : all) {
    phases[row.phase].push_back(row);
    if (row.moves()) moving.push_back(row);
  }
  std::string out =
      "# Time\n\nPredicted seconds against measured ones, every phase of every recorded run from its second "
      "step "
      "on. Made by `docs/regenerate_time.sh`; errors signed, in percent of what was measured. Many "
      "recordings "
      "shared their card and host with other work: the same phase of two steps differs by up to a half.\n\n"
      "| | rows | median error % | 90 % within % | worst % | predicted to measured, median | rank "
      "correlation |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  out += summary_line("all phases", all);
  out += summary_line("whole steps", steps);
  if (!moving.empty()) out += summary_line("phases that offload or empty the cache", moving);
  for (const auto& [name, part] : phases) out += summary_line(name, part);
  if (const Spread same = spread_of_equal_work(all); same.pairs > 0)
    out += fmt::format(
        "\nThe same work, recorded in two runs, differs by {:.0f} % in the median of {} pairs, by {:.0f} % or less in 90 % of "
        "them, by {:.0f} % at most: hosts, and what else ran beside.\n",
        same.median, same.pairs, same.p90, same.worst);
  if (const TimeSummary middles = errors_of_middles(all); middles.rows > 0)
    out += fmt::format(
        "\nA prediction that knew the middle of what each such work took would miss the {} rows of it by {:.0f} % in the "
        "median and 90 % of them by {:.0f} % or less: no constant of a card or a host can come nearer.\n",
        middles.rows, middles.median, middles.p90);
  const TimeSummary own = errors_at_own_speed(all);
  out += fmt::format(
      "\nWith the speed of each run's host and card taken from the middle of its own rows, the rows miss by {:.0f} % in the "
      "median and 90 % of them by {:.0f} % or less: what is left is the program's and the moment's.\n",
      own.median, own.p90);
  out += "\nWhere a prediction's seconds go is what the phase waits for at each moment.\n";
  std::string run;
  for (const TimedRow& row : all) {
    if (row.run != run) {
      run = row.run;
      out += fmt::format(
          "\n## {}\n\n| step | phase | predicted s | measured s | error % | host | matrix | memory | copies "
          "| network | "
          "waiting |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
          run);
    }
    out += fmt::format("| {} | {} | {:.4f} | {:.4f} | {:+.1f} |", row.step, row.phase, row.predicted,
                       row.measured, row.error());
    for (const double part : row.spent.by) out += fmt::format(" {:.4f} |", part);
    out += "\n";
  }
  return out;
}

}  // namespace headroom::compare
