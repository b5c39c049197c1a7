#pragma once

#include "cohort/tensor.h"
#include "cohort/tensor.pb.h"

// Values of tensors between memory and messages. Errors say what is wrong; the caller says where.
namespace cohort::internal {

// Throws FailedPrecondition for a tensor without a value, and for the handle of state.
void write_tensor(const Tensor& tensor, ::cohort::proto::TensorValue& out);
// Throws InvalidArgument for a message that does not describe a tensor.
Tensor read_tensor(const ::cohort::proto::TensorValue& in);

// Throws InvalidArgument for more or larger dimensions than a shape may have.
Shape read_sizes(const google::protobuf::RepeatedField<int64_t>& sizes);

}  // namespace cohort::internal
