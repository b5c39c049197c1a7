#include "train/graph_variable.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/raise.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "graph/handles.h"
#include "graph/scopes.h"
#include "ops/variable_ops.h"

namespace cohort {
namespace internal {

extern const OpDef kVariableHandle;

GraphVariable::GraphVariable(const VariableRequest& request) : SingleVariable(request.options) {
  // The state's name is the node's, so that graphs that name it alike share it.
  const NamedHandle made = add_handle(kVariableHandle, request.options.name, {}, {}, {});
  handle_.handle = made.handle;
  handle_.name = made.state;
  const Colocation together(handle_.handle);
  const Tensor value = initial_value(request);
  handle_.dtype = value.dtype();
  handle_.shape = options_.shape.has_rank() ? options_.shape : value.shape();
  initializer_ = assign_variable(handle_, value);
}

GraphVariable::GraphVariable(const GraphImpl::VariableRecord& record)
    : SingleVariable(record.options), initializer_(record.initializer) {
  handle_ = record.handle;
}

std::string GraphVariable::device() const {
  const std::shared_ptr<GraphImpl> graph = graph_of(handle_.handle);
  return graph->node(graph->endpoint(handle_.handle).node).device.to_string();
}

std::shared_ptr<VariableImpl> GraphVariable::deep_copy() const {
  raise(Code::Unimplemented,
        "[Variable] '{}' is a graph's: sessions hold its value, so there is nothing to copy",
        name());
}

Tensor GraphVariable::read() const {
  const Colocation together(handle_.handle);
  return SingleVariable::read();
}

std::string GraphVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}>", name(), handle_.shape.to_string(),
                     cohort::to_string(handle_.dtype));
}

namespace {

std::shared_ptr<GraphImpl> current_graph() { return GraphAccess::impl(get_default_graph()); }

std::vector<GraphImpl::VariableRecord> current_variables() {
  return current_graph()->variables([](const GraphImpl::VariableRecord& record) {
    return std::make_shared<GraphVariable>(record);
  });
}

std::optional<Variable> find_variable(const std::string& name) {
  for (const auto& record : current_variables()) {
    if (record.variable->name() == name) return VariableAccess::make(record.variable);
  }
  return std::nullopt;
}

Variable check_reused(const Variable& found, const GetVariableOptions& options) {
  if (found.dtype() != options.dtype || !found.shape().is_compatible_with(options.shape)) {
    raise(Code::InvalidArgument, "[GetVariable] '{}' exists with {} {}, but {} {} was asked for",
          found.name(), to_string(found.dtype()), found.shape().to_string(),
          to_string(options.dtype), options.shape.to_string());
  }
  return found;
}

Variable make_named(std::string_view name, const GetVariableOptions& options) {
  if (!options.shape.is_fully_known()) {
    raise(Code::InvalidArgument, "[GetVariable] '{}' needs a fully known shape, got {}", name,
          options.shape.to_string());
  }
  const nn::Initializer initializer =
      options.initializer ? options.initializer
                          : (is_floating(options.dtype) ? nn::glorot_uniform() : nn::zeros());
  return Variable([=] { return initializer(options.shape, options.dtype); },
                  {.name = std::string(name), .trainable = options.trainable});
}

}  // namespace
}  // namespace internal

Variable get_variable(std::string_view name, const GetVariableOptions& options) {
  const std::optional<Variable> found =
      internal::find_variable(internal::name_prefix() + std::string(name));
  if (found && options.reuse == Reuse::No) {
    internal::raise(Code::AlreadyExists,
                    "[GetVariable] '{}' exists already; .reuse = Reuse::Yes gives that one", name);
  }
  if (!found && options.reuse == Reuse::Yes) {
    internal::raise(Code::NotFound, "[GetVariable] there is no variable '{}' to reuse", name);
  }
  return found ? internal::check_reused(*found, options) : internal::make_named(name, options);
}

std::vector<Variable> global_variables() {
  std::vector<Variable> all;
  for (const auto& record : internal::current_variables()) {
    all.push_back(internal::VariableAccess::make(record.variable));
  }
  return all;
}

std::vector<Variable> trainable_variables() {
  std::vector<Variable> all = global_variables();
  std::erase_if(all, [](const Variable& variable) { return !variable.trainable(); });
  return all;
}

Tensor global_variables_initializer() {
  std::vector<Tensor> assignments;
  for (const auto& record : internal::current_graph()->variables()) {
    assignments.push_back(record.initializer);
  }
  const NameScope outside("");
  const NameScope init("init");
  return group(assignments);
}

Variable global_step() {
  const NameScope outside("");
  return get_variable("global_step", {.shape = {},
                                      .dtype = kInt64,
                                      .initializer = nn::zeros(),
                                      .trainable = false,
                                      .reuse = Reuse::Auto});
}

}  // namespace cohort
