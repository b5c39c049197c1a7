#pragma once

#include "cohort/strategy.h"
#include "differential/outcome.h"
#include "differential/program.h"

namespace cohort::differential {

// Where functions are traced: nowhere, inside run(), or around it.
enum class Tracing { Off, InReplica, AroundRun };
constexpr Tracing kTracings[] = {Tracing::Off, Tracing::InReplica, Tracing::AroundRun};
std::string to_string(Tracing tracing);

// Runs the program as one worker of `strategy`, which has kReplicas replicas in sync.
Outcome execute(const Program& program, Strategy& strategy, Tracing tracing);

}  // namespace cohort::differential
