#include <cmath>

#include "base/raise.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "graph/scopes.h"
#include "optim/optimizer.h"

namespace cohort::optim {
namespace {

// step / total, at most 1, as float64.
Tensor progress(const Tensor& step, int64_t total) {
  return minimum(cast(step, kFloat64) / static_cast<double>(total), 1.0);
}

// The nodes that a schedule adds to a graph have the site where the schedule was made.
Schedule made_at(Site site, Schedule schedule) {
  return [site, schedule = std::move(schedule)](const Tensor& step) {
    const cohort::internal::SiteScope there(site);
    return schedule(step);
  };
}

void require_steps(std::string_view schedule, int64_t steps) {
  internal::require(steps > 0, schedule, "the number of steps must be positive",
                    static_cast<double>(steps));
}

}  // namespace

LearningRate::LearningRate(double rate) : constant_(rate) {
  internal::require(rate >= 0 && std::isfinite(rate), "LearningRate",
                    "a learning rate must be finite and not negative", rate);
  schedule_ = [rate](const Tensor&) { return Tensor(rate); };
}

LearningRate::LearningRate(Schedule schedule) : schedule_(std::move(schedule)) {
  if (!schedule_) {
    cohort::internal::raise(Code::InvalidArgument, "[LearningRate] the schedule is empty");
  }
}

Schedule exponential_decay(const ExponentialDecayOptions& options, Site site) {
  require_steps("ExponentialDecay", options.decay_steps);
  return made_at(site, [options](const Tensor& step) {
    Tensor times = cast(step, kFloat64) / static_cast<double>(options.decay_steps);
    if (options.staircase) times = floor(times);
    return options.initial_rate * pow(Tensor(options.decay_rate), times);
  });
}

Schedule polynomial_decay(const PolynomialDecayOptions& options, Site site) {
  require_steps("PolynomialDecay", options.decay_steps);
  return made_at(site, [options](const Tensor& step) {
    const Tensor remaining = 1.0 - progress(step, options.decay_steps);
    const double range = options.initial_rate - options.end_rate;
    return range * pow(remaining, Tensor(options.power)) + options.end_rate;
  });
}

Schedule cosine_decay(const CosineDecayOptions& options, Site site) {
  require_steps("CosineDecay", options.decay_steps);
  return made_at(site, [options](const Tensor& step) {
    const Tensor wave = (cos(progress(step, options.decay_steps) * M_PI) + 1.0) * 0.5;
    return options.initial_rate * (wave * (1 - options.alpha) + options.alpha);
  });
}

Schedule piecewise_constant(std::vector<int64_t> boundaries, std::vector<double> rates, Site site) {
  if (rates.size() != boundaries.size() + 1) {
    cohort::internal::raise(Code::InvalidArgument,
                            "[PiecewiseConstant] {} boundaries need {} rates, got {}",
                            boundaries.size(), boundaries.size() + 1, rates.size());
  }
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i - 1] < boundaries[i]) continue;
    cohort::internal::raise(Code::InvalidArgument,
                            "[PiecewiseConstant] boundaries must increase, but {} follows {}",
                            boundaries[i], boundaries[i - 1]);
  }
  return made_at(
      site, [boundaries = std::move(boundaries), rates = std::move(rates)](const Tensor& step) {
        Tensor rate(rates.back());
        for (size_t i = boundaries.size(); i-- > 0;) {
          rate = where(step <= boundaries[i], Tensor(rates[i]), rate);
        }
        return rate;
      });
}

Schedule warmup(int64_t steps, LearningRate then, Site site) {
  require_steps("Warmup", steps);
  return made_at(site, [steps, then = std::move(then)](const Tensor& step) {
    const Tensor update = step + int64_t{1};
    return progress(update, steps) * then.at(maximum(update - steps, int64_t{0}));
  });
}

}  // namespace cohort::optim
