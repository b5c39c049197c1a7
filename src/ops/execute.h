#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/op.h"

namespace cohort::internal {

// While it lives, kernels may be executed on this thread. Making one costs a little, so a run of
// many ops makes one for all of them.
class KernelScope {
 public:
  KernelScope();
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  alignas(
      8) unsigned char storage_[32];  // the kernel library's guard, whose header stays out of here
};

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

// Runs the op's kernel on concrete inputs that passed `infer`. Failures of the kernel library
// become Errors that name the op. With a `run` the inputs are given away: a kernel may write over
// those that only the run holds.
void execute(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
             std::span<Tensor> outputs, RunContext* run);

}  // namespace cohort::internal
