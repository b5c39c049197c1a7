#pragma once

// What a Function keeps. Not for inclusion by users.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/internal/structure.h"

namespace cohort::internal {

class TracedFunction;  // the traces made so far
class Trace;

// Appends an argument.
template <typename T>
void add_argument(const T& argument, Flat& flat) {
  collect_tensors(argument, flat.tensors);
  describe_structure(argument, flat.kinds);
}

// TracedResults holds the tensors that a call returns, and the structure that they had in the
// trace.
struct TracedResults {
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> structure;
};
using TracedBody = std::function<TracedResults(std::span<const Tensor>)>;

// TracedCall is a call that another process makes.
struct TracedCall {
  std::shared_ptr<const Trace> trace;
  std::vector<Tensor> arguments;
};

// FunctionCore holds the traces of a Function. Copies of the Function share it.
class FunctionCore {
 public:
  explicit FunctionCore(std::string name);
  // Each of these takes the trace for the arguments' dtypes, shapes and kinds, and makes the trace
  // first if it does not exist.
  TracedResults call(const Flat& arguments, const TracedBody& body) const;
  std::string serialize(const Flat& arguments, const TracedBody& body) const;
  std::shared_ptr<const Trace> trace(const Flat& arguments, const TracedBody& body) const;
  size_t num_traces() const;

 private:
  std::shared_ptr<TracedFunction> traces_;
};

}  // namespace cohort::internal
