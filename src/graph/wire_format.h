#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/graph.pb.h"
#include "ops/op.h"
#include "tensor/tensor_proto.h"

// Values between memory and messages. Writing throws FailedPrecondition for a value that belongs to
// this process; reading throws InvalidArgument. The messages say what is wrong; the caller says
// where.
namespace cohort::internal {

// The generated messages, which share names with what they describe.
namespace message = ::cohort::graph::proto;

void write_shape(const Shape& shape, message::Shape& out);
Shape read_shape(const message::Shape& in);

void write_spec(const Spec& spec, message::Spec& out);
Spec read_spec(const message::Spec& in);

// The most that a serialized graph may take. They bound the memory that reading one needs.
inline constexpr int64_t kMaxDocumentBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxStructureBytes = int64_t{1} << 27;  // all but tensors' contents
inline constexpr int64_t kMaxDocumentParts = int64_t{1} << 23;   // texts and messages, all levels

// Walks over the encoding of a Document without taking memory. Throws InvalidArgument when it is
// not one (damaged, an unknown field, larger than the limits), and Unimplemented when it
// is in a format newer than `newest_format`.
void check_wire(std::string_view bytes, uint32_t newest_format);

}  // namespace cohort::internal
