#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/function_graph.h"
#include "graph/serialize.h"
#include "ops/run_context.h"

namespace cohort::internal {

// A function that another process traced (Function::serialize), bound to state of this one.
//
// What it captures is found in a table by container and name, and shared with everything else that
// names it there: variables, which have no value until somebody assigns one, and iterators, which
// begin their dataset when they are made. Thread-safe.
class LoadedFunction {
 public:
  struct Place {
    ResourceTable& resources;  // must outlive the function
    std::string container = "localhost";
  };

  // Throws InvalidArgument for bytes that are damaged, ask for more than ops that are compiled in,
  // or do not agree with the state that is there; NotFound for a stage function of a dataset that
  // this process does not know. `variables`, where given, supplies the handles of variables instead
  // of the table.
  LoadedFunction(std::string_view bytes, Place place, const BindCapture& variables = nullptr);

  const std::string& name() const { return function_->name; }
  // Captures not counted.
  size_t num_arguments() const { return function_->num_own_arguments(); }

  // `arguments` are tensors, and handles where the function was traced with an iterator. Throws
  // InvalidArgument for arguments that do not fit, OutOfRange when an iterator has ended, and what
  // cancels the call.
  std::vector<Tensor> call(std::span<const Tensor> arguments, Cancellation& cancellation) const;
  // The same op by op, for a tape that records or a graph that is being built.
  std::vector<Tensor> call_op_by_op(std::span<const Tensor> arguments) const;

 private:
  Place place_;
  std::shared_ptr<const GraphFunction> function_;
};

}  // namespace cohort::internal
