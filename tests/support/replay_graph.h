#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/dispatch.h"

namespace cohort::testing {

// A graph that keeps op calls in a list and runs the list: enough to see what ops do with symbols
// whose sizes nobody knows yet.
class ReplayGraph : public internal::GraphBuilder {
 public:
  using Feeds = std::vector<std::pair<Tensor, Tensor>>;  // symbol, value

  Tensor symbol(DType dtype, const Shape& shape) {
    auto made = std::make_shared<internal::SymbolBody>();
    made->kind = internal::TensorBody::Kind::Symbol;
    made->dtype = dtype;
    made->shape = shape;
    made->builder = this;
    return internal::TensorAccess::make(std::move(made));
  }

  std::vector<Tensor> append(const internal::OpDef& op, std::span<const Tensor> inputs,
                             internal::Attrs attrs, const internal::Specs& outputs, Site) override {
    internal::OpCall call{.op = &op, .attrs = std::move(attrs)};
    call.inputs.assign(inputs.begin(), inputs.end());
    for (const internal::Spec& spec : outputs)
      call.outputs.push_back(symbol(spec.dtype, spec.shape));
    calls_.push_back(call);
    return call.outputs;
  }

  // The value of `fetch` when the symbols in `feeds` have those values.
  Tensor run(const Tensor& fetch, const Feeds& feeds) const {
    std::unordered_map<const internal::TensorBody*, Tensor> values;
    for (const auto& [symbol, value] : feeds) values[internal::TensorAccess::id(symbol)] = value;
    const auto value_of = [&](const Tensor& tensor) {
      return tensor.is_symbolic() ? values.at(internal::TensorAccess::id(tensor)) : tensor;
    };
    for (const internal::OpCall& call : calls_) {
      std::vector<Tensor> inputs;
      for (const Tensor& input : call.inputs) inputs.push_back(value_of(input));
      const std::vector<Tensor> outputs = internal::apply_many(*call.op, inputs, call.attrs, {});
      for (size_t i = 0; i < outputs.size(); ++i) {
        values[internal::TensorAccess::id(call.outputs[i])] = outputs[i];
      }
    }
    return value_of(fetch);
  }

  size_t size() const { return calls_.size(); }

 private:
  std::vector<internal::OpCall> calls_;
};

}  // namespace cohort::testing
