#pragma once

#include <memory>

#include "graph/function_graph.h"
#include "graph/serialize_graph.h"
#include "graph/wire_format.h"

namespace cohort::internal {

// Reads the capture of `function` that the message describes. Throws InvalidArgument.
CaptureInfo read_capture(const std::string& function, const message::Capture& in);

// The dtype of the argument that stands for the capture.
DType argument_dtype(const CaptureInfo& capture);

// Asks `bind` for the capture. Throws FailedPrecondition when `bind` is null, or when what `bind`
// supplies does not fit.
Tensor bound(const CaptureInfo& capture, const BindCapture& bind);

// Writes the capture of the function at that index. Throws FailedPrecondition, naming the capture,
// when a reader in another process could neither find it nor make it.
void write_capture(const GraphFunction& function, size_t index, message::Capture& out);

}  // namespace cohort::internal
