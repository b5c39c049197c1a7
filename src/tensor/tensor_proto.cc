#include "tensor/tensor_proto.h"

#include <bit>

#include "base/raise.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "contents are written as they are");

// Any byte but 0 is true in memory; in a document it is 1.
void make_bools_canonical(std::string& content) {
  for (char& byte : content) byte = byte != 0 ? 1 : 0;
}

void check_bools(const std::string& content) {
  for (const char byte : content) {
    if (byte != 0 && byte != 1) {
      raise(Code::InvalidArgument, "a bool tensor holds the byte {}", static_cast<uint8_t>(byte));
    }
  }
}

Tensor read_strings(const ::cohort::proto::TensorValue& in, const Shape& shape) {
  if (!in.content().empty())
    raise(Code::InvalidArgument, "a string tensor must not hold bytes of numbers");
  if (shape.num_elements() != in.strings_size()) {
    raise(Code::InvalidArgument, "{} strings do not make up shape {}", in.strings_size(),
          shape.to_string());
  }
  return make_strings({in.strings().begin(), in.strings().end()}, shape);
}

}  // namespace

Shape read_sizes(const google::protobuf::RepeatedField<int64_t>& sizes) {
  if (sizes.size() > Shape::kMaxRank) {
    raise(Code::InvalidArgument, "a shape has {} dimensions, but a tensor has at most {}",
          sizes.size(), Shape::kMaxRank);
  }
  // No tensor is that large, and code that infers shapes may add and double sizes.
  constexpr int64_t kMaxSize = int64_t{1} << 46;
  for (const int64_t size : sizes) {
    if (size > kMaxSize)
      raise(Code::InvalidArgument, "a dimension has size {}, but at most {} is possible", size,
            kMaxSize);
  }
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sizes.size())));
}

void write_tensor(const Tensor& tensor, ::cohort::proto::TensorValue& out) {
  if (!tensor.defined()) raise(Code::FailedPrecondition, "a tensor holds nothing");
  if (tensor.is_symbolic()) {
    raise(Code::FailedPrecondition, "a tensor is a symbol of a graph, not a value");
  }
  const DType dtype = tensor.dtype();
  if (dtype == kResource) {
    raise(Code::FailedPrecondition,
          "the tensor is a handle of state (a variable, a queue) of this process and cannot be "
          "sent; make the state inside the graph");
  }
  out.set_dtype(to_string(dtype));
  const Shape shape = tensor.shape();
  for (const int64_t size : shape) out.add_sizes(size);
  if (dtype == kString) {
    for (const std::string& value : strings(tensor)) out.add_strings(value);
    return;
  }
  const auto bytes = static_cast<size_t>(tensor.size() * size_of(dtype));
  if (bytes == 0) return;
  out.set_content(element_data(tensor, dtype), bytes);
  if (dtype == kBool) make_bools_canonical(*out.mutable_content());
}

Tensor read_tensor(const ::cohort::proto::TensorValue& in) {
  const DType dtype = parse_dtype(in.dtype());
  if (dtype == kResource)
    raise(Code::InvalidArgument, "a tensor is a handle of state, which cannot be sent");
  const Shape shape = read_sizes(in.sizes());
  if (!shape.is_fully_known()) {
    raise(Code::InvalidArgument, "a tensor has the unknown shape {}", shape.to_string());
  }
  if (dtype == kString) return read_strings(in, shape);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), size_of(dtype), &bytes) ||
      bytes != static_cast<int64_t>(in.content().size()) || in.strings_size() > 0) {
    raise(Code::InvalidArgument, "{} bytes do not make up a {} tensor of shape {}",
          in.content().size(), to_string(dtype), shape.to_string());
  }
  if (dtype == kBool) check_bools(in.content());
  return copy_elements(dtype, shape, in.content().data());
}

}  // namespace cohort::internal
