// SerializedFunction reads what Function::serialize() wrote.

#include <fmt/ranges.h>

#include "base/raise.h"
#include "cohort/function.h"
#include "graph/function_graph.h"
#include "graph/serialize_graph.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "runtime/executor.h"

namespace cohort {
namespace internal {
namespace {

using Variables = std::map<std::string, Variable>;
using BindVariable = std::function<Tensor(const CaptureInfo&)>;

// The handle of an iterator that begins the captured one's dataset.
Tensor iterator_of(const CaptureInfo& capture, ResourceTable& resources) {
  const Attrs attrs{{"dataset", make_strings({capture.dataset}, {})},
                    {"container", std::string("localhost")},
                    {"shared_name", capture.name}};
  kIteratorHandle.infer({kIteratorHandle.name, {}, attrs});
  Cancellation never;
  std::atomic<uint64_t> unnumbered{0};
  CallContext context(&resources, never, unnumbered);
  Tensor handle;
  const KernelScope scope;
  execute(kIteratorHandle, {}, attrs, {&handle, 1}, &context);
  return handle;
}

// Throws unless the function was traced with such a variable.
void check_variable(const Tensor& handle, const CaptureInfo& capture) {
  const VariableCell& cell = cell_of(handle);
  if (!cell.is_initialized()) return;
  const Spec found = Spec::of(cell.read());
  if (found.is_compatible_with(capture.spec)) return;
  raise(
      Code::InvalidArgument,
      "[SerializedFunction] '{}' was traced with variable '{}' of {}, but here the variable is {}",
      capture.function, capture.name, capture.spec.to_string(), found.to_string());
}

FunctionPtr load(std::string_view bytes, ResourceTable& resources,
                 const BindVariable& variable_of) {
  return deserialize_function(bytes, [&](const CaptureInfo& capture) {
    switch (capture.kind) {
      case CaptureKind::Variable: {
        Tensor handle = variable_of(capture);
        check_variable(handle, capture);
        return handle;
      }
      case CaptureKind::Iterator:
        return iterator_of(capture, resources);
      case CaptureKind::Tensor:
        break;
    }
    raise(Code::InvalidArgument,
          "[SerializedFunction] '{}' was traced inside a graph and uses the graph's tensor '{}', "
          "which does not exist here",
          capture.function, capture.name);
  });
}

Tensor handle_of(const CaptureInfo& capture, const Variables& variables) {
  const auto found = variables.find(capture.name);
  if (found == variables.end()) {
    std::vector<std::string> names;
    for (const auto& [name, variable] : variables) names.push_back(name);
    raise(
        Code::NotFound,
        "[SerializedFunction] '{}' uses variable '{}', {}, which is not among the given variables: "
        "{}",
        capture.function, capture.name, capture.spec.to_string(), fmt::join(names, ", "));
  }
  const VariableImpl& impl = *VariableAccess::impl(found->second);
  const Tensor& handle = impl.first_copy().handle;
  if (impl.strategy != nullptr || handle.is_symbolic()) {
    raise(Code::Unimplemented,
          "[SerializedFunction] '{}' is a variable of a strategy or of a graph; give '{}' an "
          "ordinary variable",
          capture.name, capture.function);
  }
  return handle;
}

void check_arguments(const GraphFunction& function, std::span<const Tensor> arguments) {
  const Specs wanted = argument_specs(function);
  if (arguments.size() != function.num_own_arguments()) {
    raise(Code::InvalidArgument, "[SerializedFunction] '{}' takes {} tensors, got {}",
          function.name, function.num_own_arguments(), arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Spec given = Spec::of(arguments[i]);
    if (given.is_compatible_with(wanted[i])) continue;
    raise(Code::InvalidArgument,
          "[SerializedFunction] argument {} of '{}' was traced as {}, got {}", i, function.name,
          wanted[i].to_string(), given.to_string());
  }
}

}  // namespace
}  // namespace internal

struct SerializedFunction::State {
  State(std::string_view bytes, const internal::BindVariable& variable_of)
      : function(internal::load(bytes, resources, variable_of)) {}

  internal::ResourceTable resources;  // named state that the function uses
  const internal::FunctionPtr function;
};

std::vector<FunctionVariable> SerializedFunction::variables(std::string_view bytes) {
  std::vector<FunctionVariable> all;
  const State unused(bytes, [&](const internal::CaptureInfo& capture) {
    all.push_back({capture.name, capture.spec.dtype, capture.spec.shape});
    return internal::make_resource(std::make_shared<internal::VariableCell>(capture.name));
  });
  return all;
}

SerializedFunction::SerializedFunction(std::string_view bytes,
                                       const std::map<std::string, Variable>& variables)
    : state_(std::make_shared<State>(bytes, [&](const internal::CaptureInfo& capture) {
        return internal::handle_of(capture, variables);
      })) {}

const std::string& SerializedFunction::name() const { return state_->function->name; }
size_t SerializedFunction::num_arguments() const { return state_->function->num_own_arguments(); }

std::vector<Tensor> SerializedFunction::operator()(const std::vector<Tensor>& arguments) const {
  const internal::GraphFunction& function = *state_->function;
  internal::check_arguments(function, arguments);
  const internal::ThreadDispatch& dispatch = internal::thread_dispatch();
  if (dispatch.recorder != nullptr || dispatch.builder != nullptr) {
    return internal::call_inline(function, arguments, function.calls()++);
  }
  internal::Cancellation never;
  internal::CallContext context(&state_->resources, never, function.calls());
  return context.call(function, internal::with_captures(function, arguments));
}

}  // namespace cohort
