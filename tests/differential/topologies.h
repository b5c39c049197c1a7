#pragma once

#include <span>
#include <string>
#include <vector>

#include "differential/execute.h"

namespace cohort::differential {

// kReplicas replicas, spread evenly over workers that are threads of this process.
struct Topology {
  int workers = 1;

  std::string name() const;  // "2 x 2"
};
constexpr Topology kTopologies[] = {{1}, {2}, {4}};

// What happened to a program: an outcome, or how the workers differed.
struct Report {
  Outcome outcome = {};
  std::string disagreement = {};  // empty when there is an outcome
};

// Runs the programs one after the other.
std::vector<Report> run_all(Topology topology, std::span<const Program> programs, Tracing tracing);

}  // namespace cohort::differential
