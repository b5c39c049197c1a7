// SerializedFunction: what reads Function::serialize() in a program.

#include <fmt/ranges.h>

#include "base/raise.h"
#include "cohort/function.h"
#include "graph/serialize.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"
#include "runtime/loaded_function.h"

namespace cohort {
namespace {

using internal::CaptureInfo;
using internal::raise;
using Variables = std::map<std::string, Variable>;

Tensor handle_of(const CaptureInfo& capture, const Variables& variables) {
  const auto found = variables.find(capture.name);
  if (found == variables.end()) {
    std::vector<std::string> names;
    for (const auto& [name, variable] : variables) names.push_back(name);
    raise(Code::NotFound,
          "[SerializedFunction] '{}' uses variable '{}', {} {}, which is not among those given: {}",
          capture.function, capture.name, to_string(capture.spec.dtype),
          capture.spec.shape.to_string(), fmt::join(names, ", "));
  }
  const internal::VariableImpl& impl = *internal::VariableAccess::impl(found->second);
  const Tensor& handle = impl.first_copy().handle;
  if (impl.strategy != nullptr || handle.is_symbolic()) {
    raise(Code::Unimplemented,
          "[SerializedFunction] '{}' is a variable of a strategy or of a graph; give '{}' an "
          "ordinary variable",
          capture.name, capture.function);
  }
  return handle;
}

}  // namespace

struct SerializedFunction::State {
  State(std::string_view bytes, const Variables& variables)
      : function(bytes, {.resources = iterators},
                 [&](const CaptureInfo& capture) { return handle_of(capture, variables); }) {}

  internal::ResourceTable iterators;  // that the function captured
  internal::LoadedFunction function;
};

std::vector<FunctionVariable> SerializedFunction::variables(std::string_view bytes) {
  std::vector<FunctionVariable> all;
  internal::ResourceTable unused;
  const auto note = [&](const CaptureInfo& capture) {
    all.push_back({capture.name, capture.spec.dtype, capture.spec.shape});
    return internal::make_resource(std::make_shared<internal::VariableCell>(capture.name));
  };
  const internal::LoadedFunction function(bytes, {.resources = unused}, note);
  return all;
}

SerializedFunction::SerializedFunction(std::string_view bytes, const Variables& variables)
    : state_(std::make_shared<State>(bytes, variables)) {}

const std::string& SerializedFunction::name() const { return state_->function.name(); }
size_t SerializedFunction::num_arguments() const { return state_->function.num_arguments(); }

std::vector<Tensor> SerializedFunction::operator()(const std::vector<Tensor>& arguments) const {
  const internal::ThreadDispatch& dispatch = internal::thread_dispatch();
  if (dispatch.recorder != nullptr || dispatch.builder != nullptr) {
    return state_->function.call_op_by_op(arguments);
  }
  internal::Cancellation never;
  return state_->function.call(arguments, never);
}

}  // namespace cohort
