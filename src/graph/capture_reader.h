#pragma once

#include "graph/proto_values.h"
#include "graph/serialize.h"

namespace cohort::internal {

// What the message says of a capture of `function`. Throws InvalidArgument.
CaptureInfo read_capture(const std::string& function, const message::Capture& in);

// The dtype of the argument that stands for it.
DType argument_dtype(const CaptureInfo& capture);

// Asks `bind` for it. Throws FailedPrecondition when there is nobody to ask, or what is supplied
// does not fit.
Tensor bound(const CaptureInfo& capture, const BindCapture& bind);

}  // namespace cohort::internal
