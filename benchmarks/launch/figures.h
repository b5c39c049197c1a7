#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ratio.h"

namespace cohort::bench {

inline void print_figure(const std::string& name, double value, const char* unit, double limit) {
  std::printf("%-50s %9.3f %-2s %9s limit %4g  %s\n", name.c_str(), value, unit, "", limit,
              value <= limit ? "ok" : "MISSED");
  std::fflush(stdout);
}

// By how many percent something makes steps longer, and how far to believe that.
struct Effect {
  double percent = 0;
  double doubt = 0;  // two standard errors of the median
};

// Of rounds that were made in turn.
inline Effect effect_of(const std::vector<double>& with, const std::vector<double>& without) {
  std::vector<double> percents;
  for (size_t i = 0; i < with.size(); ++i) percents.push_back((with[i] / without[i] - 1) * 100);
  std::sort(percents.begin(), percents.end());
  const size_t rounds = percents.size();
  const double between_quartiles = percents[rounds * 3 / 4] - percents[rounds / 4];
  // 1.349 of a normal distribution's deviations lie between its quartiles, and its median has 1.253
  // times the error of its mean.
  const double error = 1.253 / 1.349 * between_quartiles / std::sqrt(static_cast<double>(rounds));
  return {.percent = median(percents), .doubt = 2 * error};
}

inline void print_effect(const std::string& name, const Effect& effect, double limit) {
  const char* const verdict = effect.percent + effect.doubt <= limit   ? "ok"
                              : effect.percent - effect.doubt <= limit ? "NOT TOLD FROM NOISE"
                                                                       : "MISSED";
  std::printf("%-50s %+9.2f %%  +- %-6.2f limit %4g  %s\n", name.c_str(), effect.percent,
              effect.doubt, limit, verdict);
  if (std::abs(effect.percent) < effect.doubt) {
    std::printf("  the rounds differ by more than that among themselves\n");
  }
  std::fflush(stdout);
}

}  // namespace cohort::bench
