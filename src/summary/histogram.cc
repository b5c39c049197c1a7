#include "summary/histogram.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace cohort::internal {
namespace {

// Upper limits of the buckets, ascending; the last one has room for everything.
const std::vector<double>& limits() {
  static const std::vector<double> all = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> both;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) both.push_back(-*limit);
    both.push_back(0);
    both.insert(both.end(), positive.begin(), positive.end());
    return both;
  }();
  return all;
}

// Buckets from the first to the last that has something, with one empty one before them, whose
// limit is where the first one begins.
void add_buckets(const std::vector<int64_t>& counts, events::Histogram& histogram) {
  const auto is_full = [](int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_full);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_full).base();
  for (auto count = first == counts.begin() ? first : first - 1; count < last; ++count) {
    histogram.add_bucket_limit(limits()[static_cast<size_t>(count - counts.begin())]);
    histogram.add_bucket(static_cast<double>(*count));
  }
}

}  // namespace

events::Histogram make_histogram(std::span<const double> values) {
  events::Histogram histogram;
  if (values.empty()) return histogram;
  std::vector<int64_t> counts(limits().size());
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    const auto limit = std::lower_bound(limits().begin(), limits().end(), value);
    ++counts[static_cast<size_t>(limit - limits().begin())];
  }
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  histogram.set_min(*least);
  histogram.set_max(*largest);
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  add_buckets(counts, histogram);
  return histogram;
}

}  // namespace cohort::internal
