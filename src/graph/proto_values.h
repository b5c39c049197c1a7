#pragma once

#include "cohort/graph.pb.h"
#include "ops/op.h"

// Values between memory and messages. Writing throws FailedPrecondition for what cannot travel;
// reading throws InvalidArgument. The messages say what is wrong; the caller says where.
namespace cohort::internal {

// The generated messages, which share names with what they describe.
namespace message = ::cohort::graph::proto;

void write_shape(const Shape& shape, message::Shape& out);
Shape read_shape(const message::Shape& in);

void write_dtype(DType dtype, std::string& out);
DType read_dtype(const std::string& in);

void write_spec(const Spec& spec, message::Spec& out);
Spec read_spec(const message::Spec& in);

void write_tensor(const Tensor& tensor, message::TensorValue& out);
Tensor read_tensor(const message::TensorValue& in);

}  // namespace cohort::internal
