#include <algorithm>
#include <cstring>

#include "base/raise.h"
#include "tensor/body.h"
#include "tensor/memory.h"
#include "transport/message_codec.h"

namespace cohort::internal {
namespace {

// The first number of an undefined tensor. A defined tensor begins with 1 + its dtype.
constexpr uint64_t kNothing = 0;
// Up to this size a payload costs more than the bytes in the header.
constexpr size_t kMaxInHeader = 64;

void write_bytes(Buffer bytes, MessageWriter& writer) {
  if (bytes.bytes.size() > kMaxInHeader) {
    writer.payload(std::move(bytes));
  } else {
    writer.text({reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()});
  }
}

// `size` follows from the shape, and decides whether the bytes are a payload.
Buffer read_bytes(size_t size, MessageReader& reader) {
  Buffer found;
  if (size > kMaxInHeader) {
    found = reader.payload();
  } else {
    const std::string_view text = reader.text();
    found.bytes = std::as_bytes(std::span(text));
  }
  if (found.bytes.size() != size) {
    reader.fail(fmt::format("a tensor of {} bytes comes with {}", size, found.bytes.size()));
  }
  return found;
}

void write_string_tensor(const std::vector<std::string>& values, MessageWriter& writer) {
  auto joined = std::make_shared<std::string>();
  for (const std::string& value : values) {
    writer.number(value.size());
    joined->append(value);
  }
  write_bytes({std::as_bytes(std::span(std::as_const(*joined))), joined}, writer);
}

Tensor read_string_tensor(const Shape& shape, MessageReader& reader) {
  std::vector<size_t> sizes(reader.checked_count(shape.num_elements()));
  size_t total = 0;
  for (size_t& size : sizes) {
    size = reader.number();
    if (__builtin_add_overflow(total, size, &total)) reader.fail("strings are too long");
  }
  const Buffer joined = read_bytes(total, reader);
  const char* next = reinterpret_cast<const char*>(joined.bytes.data());
  std::vector<std::string> values;
  values.reserve(sizes.size());
  for (const size_t size : sizes) {
    values.emplace_back(next, size);
    next += size;
  }
  return Tensor::from(std::move(values), shape);
}

void write_numbers(const Tensor& tensor, MessageWriter& writer) {
  const auto size = static_cast<size_t>(tensor.size() * size_of(tensor.dtype()));
  const std::byte* data = size == 0 ? nullptr : element_bytes(tensor);
  write_bytes({{data, size}, TensorAccess::shared(tensor)}, writer);
}

Tensor copied(const Buffer& bytes, DType dtype, const Shape& shape) {
  const WritableTensor made = allocate_tensor(dtype, shape);
  if (dtype == kBool) {  // a peer may send any byte; kernels know 0 and 1
    std::transform(bytes.bytes.begin(), bytes.bytes.end(), made.data,
                   [](std::byte value) { return std::byte{value != std::byte{0}}; });
  } else if (!bytes.bytes.empty()) {
    std::memcpy(made.data, bytes.bytes.data(), bytes.bytes.size());
  }
  return made.tensor;
}

Tensor read_numbers(DType dtype, const Shape& shape, MessageReader& reader) {
  int64_t size = 0;
  if (__builtin_mul_overflow(shape.num_elements(), size_of(dtype), &size)) {
    reader.fail("a tensor has more bytes than fit into 64 bits");
  }
  Buffer bytes = read_bytes(static_cast<size_t>(size), reader);
  const std::byte* data = bytes.bytes.data();
  const bool aligned = reinterpret_cast<uintptr_t>(data) % size_of(dtype) == 0;
  if (dtype == kBool || !bytes.owner || !aligned) return copied(bytes, dtype, shape);
  return borrow_memory(data, dtype, shape, std::move(bytes.owner));
}

Shape read_shape(MessageReader& reader) {
  Shape shape;
  int64_t elements = 1;
  for (uint64_t rank = reader.number(Shape::kMaxRank); rank > 0; --rank) {
    const auto size = static_cast<int64_t>(reader.number(INT64_MAX));
    shape.push_back(size);
    if (__builtin_mul_overflow(elements, size, &elements)) {
      reader.fail("a shape has more elements than fit into 64 bits");
    }
  }
  return shape;
}

}  // namespace

void MessageWriter::put(const Tensor& value) {
  if (!value.defined()) {
    number(kNothing);
    return;
  }
  if (value.is_symbolic()) raise_symbolic(value, "sending");
  if (value.dtype() == kResource) {
    raise(Code::InvalidArgument,
          "[Message] a resource (variable, queue) cannot be sent to another task; send its value, "
          "or place what uses it on the resource's device");
  }
  const Shape& shape = body(value).shape;
  number(1 + static_cast<uint64_t>(value.dtype())).number(shape.rank());
  for (const int64_t size : shape) number(size);
  if (value.dtype() == kString) {
    write_string_tensor(strings(value), *this);
  } else {
    write_numbers(value, *this);
  }
}

void MessageReader::take(Tensor& value) {
  const uint64_t kind = number(1 + static_cast<uint64_t>(kString));
  if (kind == kNothing) return;
  const auto dtype = static_cast<DType>(kind - 1);
  const Shape shape = read_shape(*this);
  value = dtype == kString ? read_string_tensor(shape, *this) : read_numbers(dtype, shape, *this);
}

}  // namespace cohort::internal
