#include "variables/graph_variable.h"

#include <fmt/ranges.h>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/thread_context.h"
#include "cohort/graph_variable.h"
#include "cohort/ops.h"
#include "graph/scopes.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "variables/variable_creators.h"

namespace cohort {
namespace internal {
namespace {

std::shared_ptr<GraphImpl> current_graph() { return GraphAccess::impl(get_default_graph()); }

constinit ContextSlot<const UnplacedVariable*> being_placed;

UnplacedVariable known_of(const VariableRequest& request) {
  UnplacedVariable known{request.options.dtype, request.options.shape};
  const auto* constant = request.initializer.target<ConstantInitializer>();
  if (constant == nullptr || !constant->value.defined()) return known;
  if (!known.dtype) known.dtype = constant->value.dtype();
  if (!known.shape.has_rank()) known.shape = constant->value.shape();
  return known;
}

// The state has the name of the node, so that graphs with a node of that name share the state.
NamedHandle add_variable_handle(const VariableRequest& request) {
  const UnplacedVariable known = known_of(request);
  const ContextValue placing(being_placed, &known);
  return add_handle(kVariableHandle, request.options.name, {}, {}, {});
}

}  // namespace

UnplacedVariable variable_being_placed() {
  const UnplacedVariable* const variable = being_placed.get();
  return variable != nullptr ? *variable : UnplacedVariable();
}

void follow_first_variable(const Variable& variable) {
  const Tensor& handle = VariableAccess::impl(variable)->handle().handle;
  if (!handle.is_symbolic()) return;
  const std::shared_ptr<GraphImpl> graph = graph_of(handle);
  graph->follow_first_variable(graph->node_output(handle).node);
}

GraphVariable::GraphVariable(const VariableRequest& request) : SingleVariable(request.options) {
  const NamedHandle made = add_variable_handle(request);
  handle_.handle = made.handle;
  handle_.name = made.state;
  const Colocation together(handle_.handle);
  const NoControlDependencies at_once;
  const Tensor value = initial_value(request);
  handle_.dtype = value.dtype();
  handle_.shape = options_.shape.has_rank() ? options_.shape : value.shape();
  initializer_ = write_variable(handle_, Write::Assign, value);
}

GraphVariable::GraphVariable(const GraphImpl::VariableRecord& record)
    : SingleVariable(record.options), initializer_(record.initializer) {
  handle_ = record.handle;
}

std::string GraphVariable::device() const {
  const std::shared_ptr<GraphImpl> graph = graph_of(handle_.handle);
  return device_asked_for(*graph, graph->node_output(handle_.handle).node).to_string();
}

std::shared_ptr<VariableImpl> GraphVariable::deep_copy() const {
  raise(Code::Unimplemented,
        "[Variable] '{}' belongs to a graph: sessions hold its value, so there is nothing to copy",
        name());
}

// While the graph is being built, a read is part of the user's program and has its own place among
// the nodes. Otherwise the caller only asks for the value.
Tensor GraphVariable::read() const {
  if (thread_dispatch().builder == nullptr) return convert();
  const SoleColocation together(handle_.handle);
  return SingleVariable::read();
}

Tensor GraphVariable::convert() const {
  const Tensor value = keep_about("read", {handle_.handle}, [&] {
    const SoleColocation together(handle_.handle);
    return SingleVariable::read();
  });
  return note_read(handle_.handle, value, trainable_);
}

std::string GraphVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}>", name(), handle_.shape.to_string(),
                     cohort::to_string(handle_.dtype));
}

bool is_of_graph(const Variable& variable) {
  const VariableImpl* impl = VariableAccess::impl(variable).get();
  return dynamic_cast<const GraphVariable*>(impl) != nullptr;
}

namespace {

std::optional<Variable> find_variable(const std::string& name) {
  for (const Variable& variable : global_variables()) {
    if (variable.name() == name) return variable;
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
                  {.name = std::string(name),
                   .trainable = options.trainable,
                   .dtype = options.dtype,
                   .shape = options.shape});
}

// A graph's local variables, in the order in which they were made.
struct LocalVariables {
  Mutex mutex;
  std::vector<std::shared_ptr<GraphVariable>> made;  // guarded by mutex
};

std::vector<std::shared_ptr<GraphVariable>> current_locals() {
  auto& locals = current_graph()->companion<LocalVariables>();
  const std::lock_guard lock(locals.mutex);
  return locals.made;
}

// Variables are never removed, so their number tells which variables the group is for.
Tensor kept_group(const std::string& name, const std::vector<Tensor>& assignments) {
  return current_graph()->keep(fmt::format("{} {}", name, assignments.size()), [&] {
    const NameScope outside("");
    const NameScope scope(name);
    return group(assignments);
  });
}

// The names whose flag is set.
Tensor names_where(const std::vector<std::string>& names, const std::vector<Tensor>& flags) {
  return apply(kRepeat, {Tensor::from(names), cast(stack(flags), kInt64)}, {});
}

// Whether all shards or copies of the variable have a value.
Tensor are_parts_initialized(const VariableImpl& variable) {
  std::vector<Tensor> flags;
  for (const Variable& part : variable.parts()) flags.push_back(is_variable_initialized(part));
  if (!flags[0].is_symbolic()) return Tensor(variable.is_initialized());
  return keep_about("all initialized", flags, [&] { return all(stack(flags)); });
}

}  // namespace
}  // namespace internal

Variable get_variable(std::string_view name, const GetVariableOptions& options, Site site) {
  const internal::SiteScope there(site);
  const std::optional<Variable> found =
      internal::find_variable(internal::name_prefix() + std::string(name));
  if (found && options.reuse == Reuse::No) {
    internal::raise(Code::AlreadyExists,
                    "[GetVariable] variable '{}' already exists; set .reuse = Reuse::Yes to get it",
                    name);
  }
  if (!found && options.reuse == Reuse::Yes) {
    internal::raise(Code::NotFound,
                    "[GetVariable] variable '{}' does not exist and cannot be reused; get it with "
                    "Reuse::No or Reuse::Auto first",
                    name);
  }
  return found ? internal::check_reused(*found, options) : internal::make_named(name, options);
}

std::vector<Variable> global_variables() {
  std::vector<Variable> all;
  const auto load = [](const internal::GraphImpl::VariableRecord& record) {
    return std::make_shared<internal::GraphVariable>(record);
  };
  for (const auto& record : internal::current_graph()->variables(load)) {
    all.push_back(internal::VariableAccess::make(record.variable));
  }
  return all;
}

std::vector<Variable> trainable_variables() {
  std::vector<Variable> all = global_variables();
  std::erase_if(all, [](const Variable& variable) { return !variable.trainable(); });
  return all;
}

Tensor global_variables_initializer(Site site) {
  const internal::SiteScope there(site);
  std::vector<Tensor> assignments;
  for (const auto& record : internal::current_graph()->variables()) {
    assignments.push_back(record.initializer);
  }
  return internal::kept_group("init", assignments);
}

Variable local_variable(const Initializer& initializer, const VariableOptions& options, Site site) {
  const internal::SiteScope there(site);
  // A replica_device_setter does not treat a constant as a parameter, and the variable is colocated
  // with the constant.
  const Tensor anchor = constant(Tensor(int64_t{0}), options.name + "/anchor");
  const Colocation together(anchor);
  VariableRequest request{initializer, options};
  request.options.trainable = options.trainable.value_or(false);
  const auto made = std::make_shared<internal::GraphVariable>(request);
  auto& locals = internal::current_graph()->companion<internal::LocalVariables>();
  const std::lock_guard lock(locals.mutex);
  locals.made.push_back(made);
  return internal::VariableAccess::make(made);
}

std::vector<Variable> local_variables() {
  std::vector<Variable> all;
  for (const auto& made : internal::current_locals()) {
    all.push_back(internal::VariableAccess::make(made));
  }
  return all;
}

Tensor local_variables_initializer(Site site) {
  const internal::SiteScope there(site);
  std::vector<Tensor> assignments;
  for (const auto& made : internal::current_locals()) assignments.push_back(made->initializer());
  return internal::kept_group("init_local", assignments);
}

Tensor is_variable_initialized(const Variable& variable, Site site) {
  const internal::SiteScope there(site);
  const auto& impl = internal::VariableAccess::impl(variable);
  if (!impl->parts().empty()) return internal::are_parts_initialized(*impl);
  const Tensor& handle = impl->handle().handle;
  if (!handle.is_symbolic()) return Tensor(impl->is_initialized());
  return internal::keep_about("is initialized", {handle}, [&] {
    const internal::SoleColocation together(handle);
    return internal::is_variable_initialized(impl->handle());
  });
}

Tensor report_uninitialized_variables(const std::vector<Variable>& variables, Site site) {
  const internal::SiteScope there(site);
  std::vector<std::string> names;
  std::vector<Tensor> flags;
  for (const Variable& variable : variables) {
    names.push_back(variable.name());
    flags.push_back(is_variable_initialized(variable));
  }
  const auto report = [&] {
    const NameScope outside("");
    const NameScope scope("report_uninitialized_variables");
    if (names.empty()) return constant(Tensor::from(names));
    std::vector<Tensor> missing;
    for (const Tensor& flag : flags) missing.push_back(logical_not(flag));
    return internal::names_where(names, missing);
  };
  const std::string key = fmt::format("uninitialized {}", fmt::join(names, " "));
  std::vector<Tensor> asked = flags;
  std::erase_if(asked, [](const Tensor& flag) { return !flag.is_symbolic(); });
  if (!asked.empty()) return internal::keep_about(key, asked, report);
  return building_graph() ? internal::current_graph()->keep(key, report) : report();
}

Tensor report_uninitialized_variables(Site site) {
  std::vector<Variable> all = global_variables();
  const std::vector<Variable> locals = local_variables();
  all.insert(all.end(), locals.begin(), locals.end());
  return report_uninitialized_variables(all, site);
}

std::optional<Variable> find_global_step() { return internal::find_variable("global_step"); }

Variable global_step(Site site) {
  const internal::SiteScope there(site);
  const NameScope outside("");
  const Variable step = get_variable("global_step", {.shape = {},
                                                     .dtype = kInt64,
                                                     .initializer = nn::zeros(),
                                                     .trainable = false,
                                                     .reuse = Reuse::Auto});
  internal::follow_first_variable(step);
  return step;
}

}  // namespace cohort
