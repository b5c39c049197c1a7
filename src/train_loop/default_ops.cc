#include "train_loop/default_ops.h"

#include "cohort/device.h"
#include "cohort/graph_variable.h"

namespace cohort::internal {

void DefaultOps::make_missing() {
  // Where these run does not matter to anybody, so no open device scope places them.
  const auto nowhere = device(nullptr);
  if (!init_op.defined()) init_op = global_variables_initializer();
  if (!ready_op.defined()) ready_op = report_uninitialized_variables();
  if (local_init_op.defined()) return;
  local_init_op = local_variables_initializer();
  if (!ready_for_local_init_op.defined()) {
    ready_for_local_init_op = report_uninitialized_variables(global_variables());
  }
}

}  // namespace cohort::internal
