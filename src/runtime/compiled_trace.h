#pragma once

#include "base/mutex.h"
#include "cohort/function.h"
#include "graph/function_graph.h"
#include "graph/tracing.h"
#include "runtime/compiled_run.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The result of one run of a function's C++ code on symbols.
class Trace {
 public:
  Trace(const std::string& name, std::vector<Spec> arguments, const Device& home,
        const TracedBody& body);

  const std::vector<Spec>& arguments() const { return arguments_; }
  const GraphFunction& function() const { return *function_; }
  const std::shared_ptr<const void>& structure() const { return structure_; }
  // The body cut by devices, compiled at the first request; null if the body runs only on the
  // caller's device.
  const CompiledRun* parts() const;
  // The settings of objects that the code used.
  const UsedSettings& settings() const { return settings_; }
  // Whether a call may wait for another thread.
  bool may_wait() const { return may_wait_; }

 private:
  const std::vector<Spec> arguments_;
  const Device& home_;
  UsedSettings settings_;
  bool may_wait_ = false;
  std::shared_ptr<const void> structure_;
  FunctionPtr function_;
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const CompiledRun> parts_;
};

}  // namespace cohort::internal
