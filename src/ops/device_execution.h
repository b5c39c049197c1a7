#pragma once

#include <functional>
#include <span>

#include "ops/op.h"
#include "tensor/devices.h"

namespace cohort::internal {

// Where a call of an op runs, in a process that has GPUs:
//
// - an op on state runs where the state is. Its other inputs are copied there;
// - else, inside a device scope, on the device of the scope;
// - else where its inputs are: on the GPU of the first one that is on a GPU.
//
// Inputs of the host are copied to the device of the call. An input of another GPU is an error,
// unless the op is there to copy. A call whose kernel is for the host (Trait::HostOnly and
// HostKernel, and ops on strings) is bridged: it runs on the host with copies of its inputs, and
// its results are copied to the device.
const Device& device_of_call(std::span<const Tensor> inputs);

// Calls `compute` with the inputs where the kernel wants them, while the current device is that of
// the kernel. Then copies outputs to where the caller expects them: to the device of the scope if
// there is one, else to that of the call.
void compute_with_gpus(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                       const std::function<void(std::span<const Tensor>)>& compute);

// A value that was read from state, for the scope that is open: a copy on its device, if the value
// is elsewhere.
Tensor for_this_scope(const Tensor& value);

}  // namespace cohort::internal
