#include "cohort/tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ostream>

#include "base/raise.h"
#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort {
namespace internal {

const TensorBody& body(const Tensor& tensor) {
  const TensorBody* found = TensorAccess::id(tensor);
  if (found == nullptr) {
    raise(Code::FailedPrecondition,
          "[Tensor] this tensor holds nothing: it was default-constructed and never assigned");
  }
  return *found;
}

void raise_symbolic(const Tensor& tensor, std::string_view wanted) {
  raise(Code::FailedPrecondition,
        "[Tensor] {} was asked of a symbolic tensor (shape {}, {}), which has no value before its "
        "graph runs; run the graph and read the result, or use where() and cond() instead of C++ "
        "branches",
        wanted, tensor.shape().to_string(), to_string(tensor.dtype()));
}

Tensor make_strings(std::vector<std::string> values, const Shape& shape) {
  check_element_count(static_cast<int64_t>(values.size()), shape);
  auto made = std::make_shared<StringBody>();
  made->kind = TensorBody::Kind::Strings;
  made->dtype = kString;
  made->shape = shape;
  made->device = &host_of(value_device());
  made->values = std::move(values);
  return TensorAccess::make(std::move(made));
}

const std::vector<std::string>& strings(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Symbol) raise_symbolic(tensor, "the text");
  if (held.kind != TensorBody::Kind::Strings) {
    raise(Code::InvalidArgument, "[Tensor] needs a string tensor, got {}", to_string(held.dtype));
  }
  return static_cast<const StringBody&>(held).values;
}

Tensor make_resource(std::shared_ptr<Resource> resource) {
  auto made = std::make_shared<ResourceBody>();
  made->kind = TensorBody::Kind::Resource;
  made->dtype = kResource;
  made->device = &value_device();
  made->resource = std::move(resource);
  return TensorAccess::make(std::move(made));
}

const std::shared_ptr<Resource>& resource_of(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind != TensorBody::Kind::Resource) {
    raise(Code::InvalidArgument, "[Tensor] needs a resource handle, got {}", to_string(held.dtype));
  }
  return static_cast<const ResourceBody&>(held).resource;
}

namespace {

// In the order of DType.
constexpr std::array kTypes = {at::kHalf,  at::kBFloat16, at::kFloat, at::kDouble, at::kChar,
                               at::kShort, at::kInt,      at::kLong,  at::kByte,   at::kBool};

// The device of a value that was made while `current` was: a host's kernel makes a value of the
// host whatever device is current.
const Device& actual_device(const at::Tensor& value, const Device& current) {
  const Place place = place_of(value);
  return place == current.place ? current : device_at(place);
}

// Torch may put off negating a value, or storing one that is zero everywhere.
bool has_lazy_values(const at::Tensor& tensor) {
  return tensor.is_neg() || tensor._is_zerotensor();
}

at::Tensor allocate(DType dtype, const Shape& shape) {
  try {
    return at::detail::empty_cpu(sizes(shape), to_aten(dtype));
  } catch (const c10::Error&) {
    raise(Code::ResourceExhausted,
          "[Tensor] there is not enough memory for a {} tensor of shape {}", to_string(dtype),
          shape.to_string());
  }
}

}  // namespace

at::ScalarType to_aten(DType dtype) {
  if (!is_numeric(dtype)) {
    raise(Code::InvalidArgument, "[Tensor] {} values are not numbers", to_string(dtype));
  }
  return kTypes[static_cast<size_t>(dtype)];
}

DType from_aten(at::ScalarType type) {
  const auto found = std::ranges::find(kTypes, type);
  if (found != kTypes.end()) return static_cast<DType>(found - kTypes.begin());
  raise(Code::InvalidArgument,
        "[Tensor] torch's type {} has no counterpart; convert it with .to(torch::kFloat32) first",
        c10::toString(type));
}

const at::Tensor& aten(const Tensor& tensor) {
  const TensorBody& held = body(tensor);
  if (held.kind == TensorBody::Kind::Symbol) raise_symbolic(tensor, "the value");
  if (held.kind != TensorBody::Kind::Numeric) {
    raise(Code::InvalidArgument, "[Tensor] needs numbers, got a {} tensor", to_string(held.dtype));
  }
  const auto& numeric = static_cast<const NumericBody&>(held);
  return numeric.value.defined() ? numeric.value : made_value(numeric);
}

Tensor from_aten(at::Tensor value) {
  auto made = std::make_shared<NumericBody>();
  made->kind = TensorBody::Kind::Numeric;
  made->dtype = from_aten(value.scalar_type());
  made->shape = shape_of(value.sizes());
  made->device = &value_device();
  if (has_gpus()) [[unlikely]]
    made->device = &actual_device(value, *made->device);
  made->value = std::move(value);
  return TensorAccess::make(std::move(made));
}

at::Device to_aten(Place place) {
  if (place.is_host()) return at::kCPU;
  return {at::DeviceType::PrivateUse1, place.gpu};
}

Place place_of(const at::Tensor& value) {
  const at::Device device = value.device();
  return device.is_cpu() ? Place{} : Place{.gpu = static_cast<int8_t>(device.index())};
}

at::Tensor at_place(const at::Tensor& value, Place place) {
  return place_of(value) == place ? value : value.to(to_aten(place));
}

at::Tensor to_torch(const Tensor& tensor) { return aten(tensor); }

// Whether the tensor is on a device that this process knows.
static bool is_reachable(const at::Tensor& tensor) {
  return tensor.is_cpu() || (has_gpus() && tensor.device().type() == to_aten(Place{0}).type());
}

Tensor from_torch(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.is_nested() || tensor.layout() != at::kStrided || !is_reachable(tensor)) {
    raise(Code::InvalidArgument,
          "[Tensor] expected a dense torch tensor on the CPU{}, got {}layout {} on {}; to_dense() "
          "and "
          ".cpu() convert",
          has_gpus() ? " or a simulated GPU" : "", tensor.is_nested() ? "a nested one, " : "",
          fmt::streamed(tensor.layout()), tensor.device().str());
  }
  from_aten(tensor.scalar_type());  // throws for a type that has no counterpart
  return from_aten(has_lazy_values(tensor) ? tensor.clone() : tensor);
}

Tensor make_scalar(DType dtype, const void* value) {
  WritableTensor scalar = make_small(dtype, Shape{}, true);
  std::memcpy(scalar.data, value, static_cast<size_t>(size_of(dtype)));
  return std::move(scalar.tensor);
}

Tensor copy_elements(DType dtype, const Shape& shape, const void* data) {
  if (shape.rank() == 0 && is_numeric(dtype)) {
    WritableTensor scalar = make_small(dtype, shape);
    std::memcpy(scalar.data, data, static_cast<size_t>(size_of(dtype)));
    return std::move(scalar.tensor);
  }
  at::Tensor copy = allocate(dtype, shape);
  const size_t bytes = copy.nbytes();
  if (bytes > 0) std::memcpy(copy.data_ptr(), data, bytes);
  Tensor made = from_aten(std::move(copy));
  if (has_gpus()) [[unlikely]]
    return on_device(made, value_device());
  return made;
}

void check_element_count(int64_t count, const Shape& shape) {
  if (shape.num_elements() != count) {
    raise(Code::InvalidArgument,
          "[Tensor] {} values do not make up shape {}, which has {} elements", count,
          shape.to_string(), shape.num_elements());
  }
}

std::string to_text(const char* text) {
  if (text == nullptr) raise(Code::InvalidArgument, "[Tensor] a null pointer is not a string");
  return text;
}

void raise_ragged(const Shape& first, const Shape& other) {
  raise(Code::InvalidArgument,
        "[Tensor] nested lists are not equally long: one part has shape {}, another {}",
        first.to_string(), other.to_string());
}

}  // namespace internal

Tensor Tensor::from_memory(const void* data, DType dtype, const Shape& shape,
                           std::function<void()> release) {
  if (!is_numeric(dtype)) {
    internal::raise(Code::InvalidArgument, "[Tensor] {} values cannot be viewed in foreign memory",
                    cohort::to_string(dtype));
  }
  if (data == nullptr && shape.num_elements() > 0) {
    internal::raise(Code::InvalidArgument, "[Tensor] null memory for a tensor of shape {}",
                    shape.to_string());
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), size_of(dtype), &bytes)) {
    internal::raise(Code::InvalidArgument,
                    "[Tensor] shape {} of {} has more bytes than fit into 64 bits",
                    shape.to_string(), cohort::to_string(dtype));
  }
  // The kernel library forgets to release a null pointer.
  static const char no_elements = 0;
  if (data == nullptr) data = &no_elements;
  auto deleter = [release = std::move(release)](void*) {
    if (release) release();
  };
  const Tensor made = internal::from_aten(
      at::from_blob(const_cast<void*>(data), internal::sizes(shape), std::move(deleter),
                    at::TensorOptions(internal::to_aten(dtype))));
  return internal::has_gpus() ? internal::on_device(made, internal::value_device()) : made;
}

bool Tensor::is_symbolic() const {
  return defined() && body_->kind == internal::TensorBody::Kind::Symbol;
}

std::string Tensor::name() const {
  if (!is_symbolic()) {
    internal::raise(Code::FailedPrecondition,
                    "[Tensor] only tensors of a graph have a name, but this tensor is {}",
                    to_string());
  }
  return static_cast<const internal::SymbolBody&>(*body_).name;
}

DType Tensor::dtype() const { return internal::body(*this).dtype; }
Shape Tensor::shape() const { return internal::body(*this).shape; }
int Tensor::rank() const { return internal::body(*this).shape.rank(); }
int64_t Tensor::size() const { return internal::body(*this).shape.num_elements(); }

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

bool TensorSpec::is_compatible_with(const TensorSpec& other) const {
  return dtype == other.dtype && shape.is_compatible_with(other.shape);
}

std::string TensorSpec::to_string() const {
  return cohort::to_string(dtype) + " " + shape.to_string();
}

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) {
  return out << spec.to_string();
}

}  // namespace cohort
