#include "cohort/variable.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "graph/scopes.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "tensor/devices.h"
#include "tensor/print.h"
#include "variables/graph_variable.h"
#include "variables/variable_creators.h"

namespace cohort {
namespace internal {

SingleVariable::SingleVariable(const VariableOptions& options)
    : options_(options),
      trainable_(
          options.trainable.value_or(options.synchronization != VariableSynchronization::OnRead)) {}

Tensor SingleVariable::read() const { return read_variable(usable_handle(), trainable_); }
Tensor SingleVariable::write(Write how, const Tensor& value) {
  return write_variable(usable_handle(), how, value);
}
Tensor SingleVariable::scatter(ScatterOp op, const IndexedSlices& slices) {
  return scatter_variable(usable_handle(), op, slices);
}

Tensor initial_value(const VariableRequest& request) {
  if (!request.initializer) {
    raise(Code::InvalidArgument, "[Variable] '{}': the initializer is empty", request.options.name);
  }
  const RecordingPause pause;
  const Tensor initial = [&] {
    const UsersCode initializer;
    return request.initializer();
  }();
  Tensor value = identity(initial);
  if (request.options.dtype) value = cast(value, *request.options.dtype);
  if (!value.shape().is_compatible_with(request.options.shape)) {
    raise(Code::InvalidArgument, "[Variable] '{}' must have shape {}, but its initial value has {}",
          request.options.name, request.options.shape.to_string(), value.shape().to_string());
  }
  return value;
}

namespace {

VariableHandle make_handle(const VariableRequest& request) {
  Tensor value = initial_value(request);
  const DType dtype = value.dtype();
  const Shape shape = request.options.shape.has_rank() ? request.options.shape : value.shape();
  const std::string& name = request.options.name;
  return {make_resource(std::make_shared<VariableCell>(name, std::move(value))), name, dtype,
          shape};
}

// A variable without a strategy: one copy, on the device where it was made.
class LocalVariable : public SingleVariable {
 public:
  explicit LocalVariable(const VariableRequest& request) : SingleVariable(request.options) {
    handle_ = make_handle(request);
  }

  std::string device() const override { return handle_.handle.device(); }
  bool is_initialized() const override { return cell_of(handle_.handle).is_initialized(); }

  std::shared_ptr<VariableImpl> deep_copy() const override {
    const DeviceScope here(device());
    const auto copy = std::make_shared<LocalVariable>(
        VariableRequest{[value = cell_of(handle_.handle).read()] { return value; }, options_});
    copy->strategy = strategy;
    return copy;
  }

  std::string to_string() const override {
    return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                       handle_.shape.to_string(), cohort::to_string(handle_.dtype),
                       format_like_python(cell_of(handle_.handle).read()));
  }
};

constinit ContextSlot<ValuesAreMadeHere*> values_are_made_here;

// What a copy of the graph must know of the variable.
VariableOptions recorded_options(const VariableImpl& variable) {
  VariableOptions options = variable.options();
  options.trainable = variable.trainable();
  return options;
}

// Asks the creators from number `depth` outwards, then makes the variable.
Variable create(size_t depth, const VariableRequest& request) {
  if (depth == 0) return make_ordinary_variable(request);
  const VariableCreator creator = variable_creators()[depth - 1];
  return creator([depth](const VariableRequest& next) { return create(depth - 1, next); }, request);
}

Variable create(const VariableRequest& request, Site site) {
  const SiteScope there(site);
  return create(variable_creators().size(), request);
}

}  // namespace

std::vector<VariableCreator>& variable_creators() {
  static constinit ContextSlot<std::vector<VariableCreator>> slot;
  return slot.get();
}

ValuesAreMadeHere::ValuesAreMadeHere() : ContextValue(values_are_made_here, this) {}
ValuesAreMadeHere* ValuesAreMadeHere::innermost() { return values_are_made_here.get(); }

Variable make_ordinary_variable(const VariableRequest& request) {
  if (builds_session_graph()) {
    const auto made = std::make_shared<GraphVariable>(request);
    graph_of(made->handle().handle)
        ->add_variable({.variable = made,
                        .initializer = made->initializer(),
                        .handle = made->handle(),
                        .options = recorded_options(*made)});
    return VariableAccess::make(made);
  }
  const Graph::Scope outside(nullptr);
  std::optional<DeviceScope> here;
  if (ValuesAreMadeHere* elsewhere = ValuesAreMadeHere::innermost()) {
    elsewhere->note(requested_device("", ""));
    here.emplace(value_device().full_name);
  }
  return VariableAccess::make(std::make_shared<LocalVariable>(request));
}

}  // namespace internal

using internal::ScatterOp;
using internal::VariableAccess;

Variable::Variable(const Initializer& initializer, const VariableOptions& options, Site site)
    : Variable(internal::create({initializer, options}, site)) {}

Variable::Variable(const Tensor& initial_value, const VariableOptions& options, Site site)
    : Variable(Initializer(internal::ConstantInitializer{initial_value}), options, site) {}

Variable::Variable(std::shared_ptr<internal::VariableImpl> impl) : impl_(std::move(impl)) {}

std::string Variable::name() const { return VariableAccess::impl(*this)->name(); }
DType Variable::dtype() const { return VariableAccess::impl(*this)->first_copy().dtype; }
Shape Variable::shape() const { return VariableAccess::impl(*this)->first_copy().shape; }
bool Variable::trainable() const { return VariableAccess::impl(*this)->trainable(); }
std::string Variable::device() const { return VariableAccess::impl(*this)->device(); }
VariableSynchronization Variable::synchronization() const {
  return VariableAccess::impl(*this)->options().synchronization;
}
VariableAggregation Variable::aggregation() const {
  return VariableAccess::impl(*this)->options().aggregation;
}

bool Variable::is_initialized() const { return VariableAccess::impl(*this)->is_initialized(); }
Variable Variable::deep_copy() const { return Variable(VariableAccess::impl(*this)->deep_copy()); }

Tensor Variable::read_value(Site site) const {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->read();
}
Variable::operator Tensor() const { return VariableAccess::impl(*this)->convert(); }
Tensor Variable::operator[](internal::Subscript index) const {
  const internal::SiteScope there(index.site());
  return static_cast<Tensor>(*this)[index];
}
Tensor Variable::assign(const Tensor& value, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->write(internal::Write::Assign, value);
}
Tensor Variable::assign_add(const Tensor& delta, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->write(internal::Write::AssignAdd, delta);
}
Tensor Variable::assign_sub(const Tensor& delta, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->write(internal::Write::AssignSub, delta);
}
Tensor Variable::write_number(internal::Write how, const Tensor& number, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->write_number(how, number);
}

Tensor Variable::scatter_update(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Update, slices);
}
Tensor Variable::scatter_add(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Add, slices);
}
Tensor Variable::scatter_sub(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Sub, slices);
}
Tensor Variable::scatter_mul(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Mul, slices);
}
Tensor Variable::scatter_div(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Div, slices);
}
Tensor Variable::scatter_min(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Min, slices);
}
Tensor Variable::scatter_max(const IndexedSlices& slices, Site site) {
  const internal::SiteScope there(site);
  return VariableAccess::impl(*this)->scatter(ScatterOp::Max, slices);
}

std::string Variable::to_string() const {
  if (!defined()) return "<Variable undefined>";
  return VariableAccess::impl(*this)->to_string();
}
std::ostream& operator<<(std::ostream& out, const Variable& variable) {
  return out << variable.to_string();
}

VariableCreatorScope::VariableCreatorScope(VariableCreator creator)
    : depth_(internal::variable_creators().size() + 1) {
  if (!creator)
    internal::raise(Code::InvalidArgument, "[VariableCreatorScope] the creator is empty");
  internal::variable_creators().push_back(std::move(creator));
}
VariableCreatorScope::~VariableCreatorScope() {
  // The stack is smaller already when an outer scope ended before this scope.
  std::vector<VariableCreator>& creators = internal::variable_creators();
  creators.resize(std::min(creators.size(), depth_ - 1));
}

}  // namespace cohort
