#pragma once

namespace cohort::internal {

// Lets optimizers find strategies. Called when a strategy is made; more than once is fine.
void connect_optimizers();

}  // namespace cohort::internal
