#pragma once

#include <string>

// The parts of the benchmark of launches. Each prints its figures beside their limits.
namespace cohort::bench {

void first_steps();
void idle_launcher();
void traced_steps();
void watched_steps();

// What the tasks of the launches do: they train, and say when their first step was done. Given a
// directory they go on as a TrainingRun tells them.
void be_task(const std::string& directory);

}  // namespace cohort::bench
