#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

// Figures are ratios: what is compared runs in turn, so that a busy machine slows both alike.
namespace cohort::bench {

inline double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Contest {
  std::string name;
  std::function<void()> ours;
  std::function<void()> theirs;
  int calls = 1;     // per measurement
  int times = 1;     // that a call does what is measured
  int rounds = 31;   // measurements of each
  double limit = 1;  // ours / theirs is to be at most this
};

// Runs both in turn and prints medians, their ratio, that of the best measurements, and the limit.
// Returns the first ratio.
inline double run(const Contest& contest) {
  std::vector<double> ours;
  std::vector<double> theirs;
  const auto repeat = [&](const std::function<void()>& body) {
    return seconds_of([&] {
             for (int i = 0; i < contest.calls; ++i) body();
           }) /
           contest.calls / contest.times;
  };
  repeat(contest.ours);
  repeat(contest.theirs);
  for (int round = 0; round < contest.rounds; ++round) {
    ours.push_back(repeat(contest.ours));
    theirs.push_back(repeat(contest.theirs));
  }
  const double ratio = median(ours) / median(theirs);
  const double best =
      *std::min_element(ours.begin(), ours.end()) / *std::min_element(theirs.begin(), theirs.end());
  std::printf("%-44s %10.2f us %10.2f us  ratio %.3f  best %.3f  limit %.2f  %s\n",
              contest.name.c_str(), median(ours) * 1e6, median(theirs) * 1e6, ratio, best,
              contest.limit, ratio <= contest.limit ? "ok" : "MISSED");
  std::fflush(stdout);
  return ratio;
}

}  // namespace cohort::bench
