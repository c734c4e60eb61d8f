#include "simulator/closed_form/peak_terms.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

namespace headroom::closed_form {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double value(const Monomial& monomial, const double* knobs) {
  double product = 1;
  for (std::size_t i = 0; i < monomial.powers.size(); ++i) {
    const int power = monomial.powers[i];
    for (int p = 0; p < power; ++p) product *= knobs[i];
    for (int p = 0; p > power; --p) product /= knobs[i];
  }
  return product;
}

Matrix design(const std::vector<Monomial>& basis, std::span<const std::vector<double>> points) {
  Matrix out(points.size(), basis.size());
  for (std::size_t r = 0; r < points.size(); ++r)
    for (std::size_t c = 0; c < basis.size(); ++c)
      out(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = value(basis[c], points[r].data());
  return out;
}

/// Points at which the highest moment is looked for: corners of the box and a regular scatter inside (an
/// additive recurrence, so that every fit of the same box looks at the same points).
std::vector<std::vector<double>> probes(std::span<const std::vector<double>> points) {
  const std::size_t knobs = points.front().size();
  std::vector<double> low = points.front(), high = points.front();
  for (const auto& point : points)
    for (std::size_t k = 0; k < knobs; ++k) {
      low[k] = std::min(low[k], point[k]);
      high[k] = std::max(high[k], point[k]);
    }
  std::vector<std::vector<double>> out(points.begin(), points.end());
  for (std::size_t corner = 0; corner < (std::size_t{1} << std::min<std::size_t>(knobs, 10)); ++corner) {
    std::vector<double> at(knobs);
    for (std::size_t k = 0; k < knobs; ++k) at[k] = (corner >> k & 1) != 0 ? high[k] : low[k];
    out.push_back(std::move(at));
  }
  const double golden = 1.0 / std::pow(2.0, 1.0 / (static_cast<double>(knobs) + 1));
  for (int n = 1; n <= 512; ++n) {
    std::vector<double> at(knobs);
    double step = golden;
    for (std::size_t k = 0; k < knobs; ++k, step *= golden) {
      const double fraction = std::fmod(0.5 + n * step, 1.0);
      // Geometric spacing: knobs are sizes, whose ratios matter.
      at[k] =
          low[k] > 0 ? low[k] * std::pow(high[k] / low[k], fraction) : low[k] + fraction * (high[k] - low[k]);
    }
    out.push_back(std::move(at));
  }
  return out;
}

}  // namespace

Result<PeakTerms> PeakTerms::fit(std::vector<Monomial> basis, std::span<const std::vector<double>> points,
                                 const std::function<Result<Trajectory>(std::span<const double>)>& program) {
  if (basis.empty() || points.size() < basis.size())
    return fail(fmt::format("expected at least {} sample points, found {}", basis.size(), points.size()));
  const Matrix samples = design(basis, points);
  const Eigen::ColPivHouseholderQR<Matrix> solver(samples);
  if (solver.rank() < static_cast<Eigen::Index>(basis.size()))
    return fail("the sample points do not tell the monomials apart");

  std::vector<Trajectory> runs;
  for (const auto& point : points) {
    HEADROOM_ASSIGN(Trajectory run, program(point));
    if (!runs.empty()) {
      if (run.size() != runs.front().size()) return fail("the number of phases depends on the knobs");
      for (std::size_t phase = 0; phase < run.size(); ++phase)
        if (run[phase].size() != runs.front()[phase].size())
          return fail(fmt::format("phase {} has {} moments at one point and {} at another", phase,
                                  runs.front()[phase].size(), run[phase].size()));
    }
    runs.push_back(std::move(run));
  }

  PeakTerms out;
  out.knobs_ = points.front().size();
  const auto at = probes(points);
  const Matrix probe_design = design(basis, at);
  out.first_term_.push_back(0);
  std::size_t terms = 0;
  for (std::size_t phase = 0; phase < runs.front().size(); ++phase) {
    const std::size_t moments = runs.front()[phase].size();
    Matrix live(points.size(), moments);
    for (std::size_t r = 0; r < runs.size(); ++r)
      for (std::size_t m = 0; m < moments; ++m)
        live(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(m)) =
            static_cast<double>(runs[r][phase][m]);
    if (moments > 0) {
      const Matrix fitted = solver.solve(live);      // [monomial][moment]
      const Matrix heights = probe_design * fitted;  // [probe][moment]
      std::set<Eigen::Index> highest;
      for (Eigen::Index r = 0; r < heights.rows(); ++r) {
        Eigen::Index best = 0;
        heights.row(r).maxCoeff(&best);
        highest.insert(best);
      }
      for (const Eigen::Index moment : highest) {
        for (Eigen::Index b = 0; b < fitted.rows(); ++b) out.coefficients_.push_back(fitted(b, moment));
        ++terms;
      }
    }
    out.first_term_.push_back(terms);
  }
  out.basis_ = std::move(basis);
  return out;
}

double PeakTerms::peak(std::size_t phase, std::span<const double> knobs) const {
  std::vector<double> out(phases());
  peaks(knobs, 1, out);
  return out[phase];
}

void PeakTerms::peaks(std::span<const double> knobs, std::size_t count, std::span<double> peaks) const {
  // Blocks of points that stay in the first-level cache together with their products.
  constexpr std::size_t kBlock = 256;
  using Column = Eigen::Array<double, kBlock, 1>;
  const std::size_t b = basis_.size();
  std::vector<Column, Eigen::aligned_allocator<Column>> monomials(b);
  Column sum, best;
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t n = std::min(kBlock, count - start);
    for (std::size_t m = 0; m < b; ++m) {
      monomials[m].setOnes();
      const auto& powers = basis_[m].powers;
      for (std::size_t k = 0; k < powers.size(); ++k)
        for (int p = 0; p < std::abs(powers[k]); ++p)
          for (std::size_t i = 0; i < n; ++i) {
            const double x = knobs[(start + i) * knobs_ + k];
            monomials[m][static_cast<Eigen::Index>(i)] *= powers[k] > 0 ? x : 1 / x;
          }
    }
    for (std::size_t phase = 0; phase < phases(); ++phase) {
      best.setZero();
      for (std::size_t t = first_term_[phase]; t < first_term_[phase + 1]; ++t) {
        const double* c = &coefficients_[t * b];
        sum = c[0] * monomials[0];
        for (std::size_t m = 1; m < b; ++m) sum += c[m] * monomials[m];
        best = best.max(sum);
      }
      std::copy_n(best.data(), n, peaks.begin() + static_cast<std::ptrdiff_t>(phase * count + start));
    }
  }
}

}  // namespace headroom::closed_form
