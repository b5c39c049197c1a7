#pragma once

#include "cohort/tensor.h"
#include "transport/message_fields.h"

namespace cohort::internal {

// Writes dtype and shape into the header and the elements into a payload, which shares the tensor's
// memory; elements of a few bytes go into the header. Views are made dense first. An undefined
// tensor arrives undefined. Throws InvalidArgument for a resource and FailedPrecondition for a
// symbol, because neither has a value to send.
void write_tensor(const Tensor& tensor, MessageWriter& writer);

// The tensor shares the payload's memory and keeps it alive; strings, bools and elements in the
// header are copied. Throws DataLoss if the bytes are not a tensor.
Tensor read_tensor(MessageReader& reader);

}  // namespace cohort::internal
