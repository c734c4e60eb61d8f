#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::closed_form {

/// One monomial of the basis: the product of knobs[i]^powers[i]. Sizes of tensors are sums of such products
/// (rows times hidden, weights over shards, rows times length for eager attention), so a handful of monomials
/// describes every moment of a program whose structure does not change.
struct Monomial {
  std::vector<int> powers;  ///< one a knob; -1 divides
};

/// What a program did at one point of the knobs: for each phase the live bytes at each of its moments, in
/// order. The number of moments of a phase must not depend on the knobs.
using Trajectory = std::vector<std::vector<Bytes>>;

/// The peaks of all phases as maxima of few linear terms in the basis:
///   peak(phase, x) = max over terms t of  sum_b coefficient[t][b] * monomial_b(x).
/// Obtained from the program itself by running it at as many points as there are monomials; no byte formula
/// is written here. Evaluation costs terms x monomials multiplications a phase and configuration.
class PeakTerms {
 public:
  /// Runs `program` at each of `points` (knob values; at least one point a monomial, in general position) and
  /// keeps the moments that are the highest somewhere in the box that the points span. Errors: too few
  /// points, points that do not determine the monomials, a program whose moments differ in number.
  static Result<PeakTerms> fit(std::vector<Monomial> basis, std::span<const std::vector<double>> points,
                               const std::function<Result<Trajectory>(std::span<const double>)>& program);

  std::size_t phases() const { return first_term_.size() - 1; }
  std::size_t terms(std::size_t phase) const { return first_term_[phase + 1] - first_term_[phase]; }

  /// The peak of `phase` at one point, in bytes.
  double peak(std::size_t phase, std::span<const double> knobs) const;

  /// Peaks of all phases at `count` points. `knobs` is row-major [count][knobs]; `peaks` receives
  /// [phases][count]. The work is a product of small matrices: millions of points a second a core.
  void peaks(std::span<const double> knobs, std::size_t count, std::span<double> peaks) const;

 private:
  std::vector<Monomial> basis_;
  std::size_t knobs_ = 0;
  std::vector<std::size_t> first_term_;  ///< of each phase, and one past the last
  std::vector<double> coefficients_;     ///< [term][monomial]
};

}  // namespace headroom::closed_form
