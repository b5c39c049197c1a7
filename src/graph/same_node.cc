#include "graph/same_node.h"

#include <bit>
#include <cstring>
#include <functional>

#include "tensor/body.h"

namespace cohort::internal {
namespace {

constexpr int64_t kMaxComparedBytes = 256;

void mix(size_t& seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2);
}

// The elements of a small numeric tensor, else nothing.
std::string_view small_content(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_symbolic() || !is_numeric(tensor.dtype())) return {};
  const int64_t bytes = tensor.size() * size_of(tensor.dtype());
  if (bytes == 0 || bytes > kMaxComparedBytes) return {};
  return {static_cast<const char*>(element_data(tensor, tensor.dtype())),
          static_cast<size_t>(bytes)};
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (TensorAccess::id(a) == TensorAccess::id(b)) return true;
  const std::string_view left = small_content(a);
  return !left.empty() && left == small_content(b) && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && body(a).weak == body(b).weak && body(a).device == body(b).device;
}

size_t hash_tensor(const Tensor& tensor) {
  const std::string_view content = small_content(tensor);
  return content.empty() ? std::hash<const void*>()(TensorAccess::id(tensor))
                         : std::hash<std::string_view>()(content);
}

// -0.0 and 0.0 differ.
bool same_value(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
bool same_value(const Tensor& a, const Tensor& b) { return same_tensor(a, b); }
template <typename T>
bool same_value(const T& a, const T& b) {
  return a == b;
}

bool same_attrs(const Attrs& a, const Attrs& b) {
  const auto same_entry = [](const Attrs::Entry& x, const Attrs::Entry& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    return std::visit(
        [&]<typename T>(const T& value) { return same_value(value, std::get<T>(y.second)); },
        x.second);
  };
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    same_entry);
}

size_t hash_value(bool value) { return value ? 1 : 0; }
size_t hash_value(int64_t value) { return std::hash<int64_t>()(value); }
size_t hash_value(double value) { return std::hash<uint64_t>()(std::bit_cast<uint64_t>(value)); }
size_t hash_value(const std::string& value) { return std::hash<std::string>()(value); }
size_t hash_value(DType value) { return static_cast<size_t>(value); }
size_t hash_value(const Tensor& value) { return hash_tensor(value); }
size_t hash_value(const std::shared_ptr<const GraphFunction>& value) {
  return std::hash<const void*>()(value.get());
}
size_t hash_value(const Shape& value) {
  size_t seed = static_cast<size_t>(value.rank() + 1);
  for (const int64_t size : value) mix(seed, hash_value(size));
  return seed;
}
template <typename T>
size_t hash_value(const std::vector<T>& values) {
  size_t seed = values.size();
  for (const T& value : values) mix(seed, hash_value(value));
  return seed;
}

}  // namespace

bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.controls == b.controls && a.device == b.device &&
         same_attrs(a.attrs, b.attrs);
}

size_t hash_node(const Node& node) {
  size_t seed = std::hash<const void*>()(node.op);
  for (const NodeOutput input : node.inputs) {
    mix(seed, static_cast<size_t>(input.node));
    mix(seed, static_cast<size_t>(input.output));
  }
  for (const int before : node.controls) mix(seed, static_cast<size_t>(before));
  for (const Attrs::Entry& entry : node.attrs.entries()) {
    mix(seed, std::visit([](const auto& value) { return hash_value(value); }, entry.second));
  }
  return seed;
}

}  // namespace cohort::internal
