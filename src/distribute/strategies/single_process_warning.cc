#include "distribute/strategies/single_process_warning.h"

#include <atomic>

#include "base/log.h"
#include "cohort/error.h"
#include "topology/resolver_parts.h"

namespace cohort::internal {
namespace {

std::atomic<bool> nothing_to_warn_of = false;

}  // namespace

void note_joint_training() { nothing_to_warn_of = true; }

void warn_if_one_of_several(std::string_view strategy, std::string_view remedy) {
  if (nothing_to_warn_of) return;
  std::optional<LaunchOfSeveral> launch;
  const Status problem = capture_status([&] { launch = launch_of_several(); });
  if (problem.ok() && !launch) return;
  if (nothing_to_warn_of.exchange(true)) return;
  if (launch) {
    log_warning(
        "[{}] trains in this process alone, but {} names {} processes, each of which trains its "
        "own model; {} to train one model together",
        strategy, launch->launcher, launch->processes, remedy);
  } else {
    log_warning(
        "[{}] trains in this process alone, but the environment may mean several: {}; {} to train "
        "one model together",
        strategy, problem.message, remedy);
  }
}

}  // namespace cohort::internal
