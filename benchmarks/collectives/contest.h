#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/collective.h"
#include "ratio.h"

namespace cohort::bench {

inline std::string size_name(size_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KB"
                         : std::to_string(bytes >> 20) + " MB";
}

// Things that the members of a group do together, in turn, round after round. Every member has one
// and makes the same calls; rank 0 prints.
class GroupContest {
 public:
  explicit GroupContest(Communicator group) : group_(std::move(group)) {}

  // `calls` in each round; before each round `prepare`, which is not timed.
  void add(std::string name, int calls, std::function<void()> body,
           std::function<void()> prepare = {}) {
    contestants_.push_back({std::move(name), calls, std::move(body), std::move(prepare), {}});
  }

  void run(int rounds) {
    for (int round = 0; round <= rounds; ++round) {
      for (Contestant& one : contestants_) {
        const double seconds = time(one);
        if (round > 0) one.seconds.push_back(seconds);  // the first one warms up
      }
    }
  }

  void print(std::string_view title) const {
    if (group_.rank() != 0) return;
    std::printf("%.*s\n", static_cast<int>(title.size()), title.data());
    for (const Contestant& one : contestants_) {
      std::printf("  %-14s best %10.2f us  median %10.2f us\n", one.name.c_str(), one.best() * 1e6,
                  median(one.seconds) * 1e6);
    }
    std::fflush(stdout);
  }

  // How many times as quick one is as the other; nothing when one of them does not take part.
  void compare(std::string_view ours, std::string_view theirs, double wanted) const {
    const Contestant* const us = find(ours);
    const Contestant* const them = find(theirs);
    if (group_.rank() != 0 || us == nullptr || them == nullptr) return;
    const double ratio = median(them->seconds) / median(us->seconds);
    std::printf("  %-8s is %7.2f times %-14s best %7.2f  wanted %.2f  %s\n", us->name.c_str(),
                ratio, them->name.c_str(), them->best() / us->best(), wanted,
                ratio >= wanted ? "ok" : "MISSED");
    std::fflush(stdout);
  }

 private:
  struct Contestant {
    std::string name;
    int calls;
    std::function<void()> body;
    std::function<void()> prepare;
    std::vector<double> seconds;  // of the slowest member, one for each round

    double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  };

  double time(const Contestant& contestant) {
    if (contestant.prepare) contestant.prepare();
    group_.barrier();
    const double seconds = seconds_of([&] {
                             for (int i = 0; i < contestant.calls; ++i) contestant.body();
                           }) /
                           contestant.calls;
    return group_.all_reduce(Tensor(seconds), ReduceOp::Max).to<double>();
  }

  const Contestant* find(std::string_view name) const {
    for (const Contestant& one : contestants_) {
      if (one.name == name) return &one;
    }
    return nullptr;
  }

  Communicator group_;
  std::vector<Contestant> contestants_;
};

// So many calls take some milliseconds.
inline int calls_for(size_t bytes, size_t budget, size_t most) {
  return static_cast<int>(std::clamp<size_t>(budget / bytes, 1, most));
}

}  // namespace cohort::bench
