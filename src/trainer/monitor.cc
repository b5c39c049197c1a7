#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <ranges>

#include "base/raise.h"
#include "cohort/callbacks.h"

namespace cohort::internal {
namespace {

bool is_larger_better(const std::string& figure, MonitorMode mode) {
  if (mode != MonitorMode::Auto) return mode == MonitorMode::Max;
  return figure.find("accuracy") != std::string::npos || figure.find("auc") != std::string::npos;
}

}  // namespace

Monitor::Monitor(std::string callback, std::string figure, MonitorMode mode, double min_delta)
    : callback_(std::move(callback)),
      figure_(std::move(figure)),
      larger_is_better_(is_larger_better(figure_, mode)),
      min_delta_(min_delta),
      best_(worst()) {}

double Monitor::worst() const {
  return larger_is_better_ ? -std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::infinity();
}

bool Monitor::improved(const Logs& logs) {
  const auto found = logs.find(figure_);
  if (found == logs.end()) {
    raise(Code::InvalidArgument,
          "[{}] there is no figure '{}' to watch; there are: {}. Those of a validation need "
          "FitOptions::validation",
          callback_, figure_, fmt::join(std::views::keys(logs), ", "));
  }
  const double value = found->second;
  const bool better = larger_is_better_ ? value > best_ + min_delta_ : value < best_ - min_delta_;
  if (better) best_ = value;
  return better;
}

}  // namespace cohort::internal
