#pragma once

#include <span>
#include <vector>

#include "ops/op.h"

namespace cohort::internal {

// State that another process keeps. Ops on it that this process executes run in that process.
class RemoteResource {
 public:
  virtual ~RemoteResource() = default;
  // Runs `op`, whose first input is the handle of this resource. Other handles among the inputs
  // belong to resources of the same process.
  virtual std::vector<Tensor> run(const OpDef& op, std::span<const Tensor> inputs,
                                  const Attrs& attrs) const = 0;
};

// The remote resource that `inputs`, those of an op, begin with; null when there is none.
const RemoteResource* remote_resource_of(std::span<const Tensor> inputs);

}  // namespace cohort::internal
