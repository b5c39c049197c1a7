#include "differential/topologies.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <stdexcept>

#include "cohort/cohort.h"
#include "support/local_workers.h"

namespace cohort::differential {
namespace {

std::vector<std::string> devices(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("CPU:{}", i));
  return names;
}

Report report(const std::vector<Outcome>& workers) {
  try {
    return {.outcome = join(workers)};
  } catch (const std::runtime_error& error) {
    return {.disagreement = error.what()};
  }
}

std::vector<Report> run_on_one(std::span<const Program> programs, Tracing tracing) {
  MirroredStrategy strategy(devices(kReplicas));
  std::vector<Report> reports;
  for (const Program& program : programs) {
    reports.push_back({.outcome = execute(program, strategy, tracing)});
  }
  return reports;
}

// Outcomes of as many programs as the group lives: one that fails may leave the group closed, so
// it is the last.
class Group {
 public:
  Group(int workers, std::span<const Program> programs, Tracing tracing)
      : workers_(workers), programs_(programs), tracing_(tracing), step_(workers) {}

  std::vector<Report> run() {
    const std::vector<Status> ends =
        test::run_workers(workers_, [&](MultiWorkerMirroredStrategy& strategy) { work(strategy); },
                          {.communication = {.timeout = std::chrono::seconds(20)},
                           .devices = devices(kReplicas / workers_)});
    for (const Status& end : ends) {
      if (!end.ok()) throw std::runtime_error(end.to_string());
    }
    return std::move(reports_);
  }

 private:
  void work(MultiWorkerMirroredStrategy& strategy) {
    for (const Program& program : programs_) {
      const auto own = static_cast<size_t>(strategy.worker_id());
      outcomes_[own] = execute(program, strategy, tracing_);
      step_.arrive_and_wait();
      if (own == 0) finish_program();
      step_.arrive_and_wait();
      if (is_over_) return;
    }
  }

  void finish_program() {
    reports_.push_back(report(outcomes_));
    is_over_ = std::any_of(outcomes_.begin(), outcomes_.end(),
                           [](const Outcome& each) { return !each.end.ok(); });
  }

  const int workers_;
  const std::span<const Program> programs_;
  const Tracing tracing_;
  std::barrier<> step_;
  std::vector<Outcome> outcomes_ = std::vector<Outcome>(static_cast<size_t>(workers_));
  std::vector<Report> reports_ = {};
  bool is_over_ = false;
};

}  // namespace

std::string Topology::name() const { return fmt::format("{} x {}", workers, kReplicas / workers); }

std::vector<Report> run_all(Topology topology, std::span<const Program> programs, Tracing tracing) {
  if (topology.workers == 1) return run_on_one(programs, tracing);
  std::vector<Report> all;
  while (all.size() < programs.size()) {
    std::vector<Report> more = Group(topology.workers, programs.subspan(all.size()), tracing).run();
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace cohort::differential
