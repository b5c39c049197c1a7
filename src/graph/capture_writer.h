#pragma once

#include <memory>

#include "graph/function_graph.h"
#include "graph/proto_values.h"

namespace cohort::internal {

class ElementSource;
class VariableCell;

// Writes down what a function uses besides its arguments. Throws FailedPrecondition naming what
// cannot be found again, or made anew, by a reader elsewhere.
class CaptureWriter {
 public:
  // `function` must outlive it.
  explicit CaptureWriter(const GraphFunction& function) : function_(function) {}

  void write(size_t index, message::Capture& out) const;

 private:
  void write_tensor(const Tensor& symbol, message::Capture& out) const;
  void write_variable(size_t index, const std::shared_ptr<VariableCell>& cell,
                      message::Capture& out) const;
  void write_iterator(const ElementSource& source, message::Iterator& out) const;
  NodeOutput argument(size_t index) const {
    return function_.arguments[function_.num_own_arguments() + index];
  }

  const GraphFunction& function_;
};

}  // namespace cohort::internal
