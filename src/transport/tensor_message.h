#pragma once

#include <vector>

#include "cohort/tensor.h"
#include "transport/message_fields.h"

namespace cohort::internal {

// How tensors travel: dtype and shape in the header, elements in a payload that shares the tensor's
// memory; elements of a few bytes in the header. Views are made dense first. A tensor that holds
// nothing arrives as one. Throws InvalidArgument for a resource, which stays where it is, and
// FailedPrecondition for a symbol.
void write_tensor(const Tensor& tensor, MessageWriter& writer);
void write_tensors(const std::vector<Tensor>& tensors, MessageWriter& writer);

// Shares the payload's memory, and keeps it as long as the tensor lives; strings, bools and what
// came in the header are copied. Throws DataLoss when it is no tensor.
Tensor read_tensor(MessageReader& reader);
std::vector<Tensor> read_tensors(MessageReader& reader);

}  // namespace cohort::internal
