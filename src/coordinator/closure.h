#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/group_updates.h"
#include "coordinator/remote_arguments.h"
#include "coordinator/remote_result.h"
#include "runtime/traces.h"

namespace cohort::internal {

using Updates = std::vector<GroupUpdatePtr>;

// A scheduled call of a function.
struct Closure {
  std::shared_ptr<const Trace> trace;
  std::vector<Tensor> arguments;
  // For each argument that is the result of another function; empty when none is.
  std::vector<std::optional<RemoteArgument>> remote = {};
  std::shared_ptr<RemoteResult> result;
  std::optional<int> worker;  // the only one that may run it
  Updates updates = {};       // that it adds gradients to
  int64_t number = 0;         // given by the queue, in the order of scheduling
  // Whether results go from worker to worker; else by way of this process, which has them too.
  bool direct = true;
  bool in_group = false;  // the queue's own, as the next
  int missing = 0;        // results that it waits for

  // Whether that worker, which may have come later than what each had its own of, has all
  // arguments.
  bool has_arguments_on(int task) const;
};
using ClosurePtr = std::shared_ptr<Closure>;

// What a closure gave.
struct Results {
  std::vector<Tensor> tensors = {};
  std::optional<KeptOn> kept = std::nullopt;
};

}  // namespace cohort::internal
