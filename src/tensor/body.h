#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/tensor.h"
#include "tensor/devices.h"

namespace cohort::internal {

class GraphBuilder;  // ops/dispatch.h

// The object that a Tensor points to. It is immutable. Four kinds derive from it: NumericBody
// (tensor/aten.h), and StringBody, ResourceBody and SymbolBody below.
struct TensorBody {
  enum class Kind : uint8_t { Numeric, Strings, Resource, Symbol };

  Kind kind;
  DType dtype;
  bool weak = false;  // made from a C++ number: takes the dtype of the tensor it meets
  Shape shape;
  const Device* device = nullptr;  // null for symbols
};

struct StringBody : TensorBody {
  std::vector<std::string> values;
};

// State on a device that operations refer to by handle: a variable, a queue, an accumulator.
class Resource {
 public:
  virtual ~Resource() = default;
};

struct ResourceBody : TensorBody {
  std::shared_ptr<Resource> resource;
};

// An output of a graph's node.
struct SymbolBody : TensorBody {
  std::weak_ptr<GraphBuilder> builder;  // the graph; null after its end
  std::string name;                     // "layer/Split:1"
  int node = 0;                         // number of the node in its graph
  int output = 0;                       // which of its outputs
  // The device that the node, or the node that it is colocated with, asks for; empty without a
  // request.
  std::string (*find_device)(const SymbolBody&) = nullptr;

  std::string device_asked_for() const { return find_device != nullptr ? find_device(*this) : ""; }
};

// The only access to a Tensor's private part.
struct TensorAccess {
  static Tensor make(std::shared_ptr<const TensorBody> body) { return Tensor(std::move(body)); }
  static const std::shared_ptr<const TensorBody>& shared(const Tensor& tensor) {
    return tensor.body_;
  }
  // Identity of the value, for maps keyed by tensor.
  static const TensorBody* id(const Tensor& tensor) { return tensor.body_.get(); }
};

// The body, of whatever kind. Throws FailedPrecondition when the tensor holds nothing.
const TensorBody& body(const Tensor& tensor);

const std::vector<std::string>& strings(const Tensor& tensor);
Tensor make_resource(std::shared_ptr<Resource> resource);
const std::shared_ptr<Resource>& resource_of(const Tensor& tensor);

[[noreturn]] void raise_symbolic(const Tensor& tensor, std::string_view wanted);

}  // namespace cohort::internal
