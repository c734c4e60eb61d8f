#pragma once

#include <vector>

namespace headroom {

/// Quantiles of response lengths with that mean and cap: `parts` of equal weight, the shortest first. Responses end
/// at random, at a rate that gives their mean, but at the cap at the latest; the longest reaches it.
std::vector<double> response_quantiles(double mean, double cap, int parts);

/// Standard deviation of such lengths, tokens; 0 where the mean is the cap.
double response_deviation(double mean, double cap);

/// Expected largest of `count` draws from a normal distribution, in standard deviations above its mean: Blom's
/// quantile.
double largest_of(double count);

}  // namespace headroom
