#include "differential/outcome.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cohort/ops.h"

namespace cohort::differential {
namespace {

double largest(const Elements& elements) {
  double most = 1;
  for (const double each : elements) most = std::max(most, std::abs(each));
  return most;
}

bool is_close(const Elements& one, const Elements& other) {
  if (one.size() != other.size()) return false;
  const double tolerance = 1e-5 * std::max(largest(one), largest(other));
  return std::equal(one.begin(), one.end(), other.begin(), [&](double a, double b) {
    return std::abs(a - b) <= tolerance || (std::isnan(a) && std::isnan(b));
  });
}

std::optional<std::string> difference(const Observation& one, const Observation& other) {
  if (one.what != other.what) return fmt::format("{} instead of {}", one.what, other.what);
  const bool equal = std::equal(one.values.begin(), one.values.end(), other.values.begin(),
                                other.values.end(), is_close);
  if (equal) return std::nullopt;
  return fmt::format("{}: {} instead of {}", one.what, one.values, other.values);
}

[[noreturn]] void raise_workers_differ(size_t worker, const std::string& how) {
  throw std::runtime_error(fmt::format("worker {} differs from worker 0: {}", worker, how));
}

// Adds what one worker showed at one place.
void add(Observation& all, const Observation& more, size_t worker) {
  if (all.is_common) {
    if (const auto how = difference(more, all)) raise_workers_differ(worker, *how);
  } else if (all.what != more.what) {
    raise_workers_differ(worker, fmt::format("{} instead of {}", more.what, all.what));
  } else {
    all.values.insert(all.values.end(), more.values.begin(), more.values.end());
  }
}

}  // namespace

Elements elements_of(const Tensor& value) { return cast(value, kFloat64).to_vector<double>(); }

void Outcome::common(std::string what, const Tensor& value) {
  observations.push_back({std::move(what), true, {elements_of(value)}});
}

void Outcome::replicas(std::string what, std::vector<Elements> values) {
  observations.push_back({std::move(what), false, std::move(values)});
}

Outcome join(const std::vector<Outcome>& workers) {
  Outcome all = workers[0];
  for (size_t worker = 1; worker < workers.size(); ++worker) {
    const Outcome& more = workers[worker];
    if (more.end.code != all.end.code) {
      raise_workers_differ(worker, fmt::format("it ends with {} instead of {}",
                                               more.end.to_string(), all.end.to_string()));
    }
    if (more.observations.size() != all.observations.size()) {
      raise_workers_differ(worker, fmt::format("it shows {} things instead of {}",
                                               more.observations.size(), all.observations.size()));
    }
    for (size_t i = 0; i < all.observations.size(); ++i) {
      add(all.observations[i], more.observations[i], worker);
    }
  }
  return all;
}

std::optional<std::string> difference(const Outcome& found, const Outcome& expected) {
  const size_t shown = std::min(found.observations.size(), expected.observations.size());
  for (size_t i = 0; i < shown; ++i) {
    if (auto how = difference(found.observations[i], expected.observations[i])) return how;
  }
  const std::vector<Code>& others = expected.other_ends;
  const bool ends_alike = found.end.code == expected.end.code ||
                          std::find(others.begin(), others.end(), found.end.code) != others.end();
  if (!ends_alike) {
    return fmt::format("it ends with {} instead of {}", found.end.to_string(),
                       expected.end.to_string());
  }
  if (found.observations.size() == expected.observations.size()) return std::nullopt;
  return fmt::format("it shows {} things instead of {}", found.observations.size(),
                     expected.observations.size());
}

}  // namespace cohort::differential
