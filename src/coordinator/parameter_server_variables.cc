// How a ParameterServerStrategy makes variables: it makes their values in this process, then the
// variables on servers.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "coordinator/parameter_server_strategy.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/sharded_variable.h"
#include "distribute/variables/variable_creation.h"
#include "distribute/variables/variable_kinds.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"
#include "variables/variable_creators.h"

namespace cohort::internal {
namespace {

VariableOptions options_of_part(const VariableOptions& whole, int64_t part) {
  VariableOptions options = whole;
  options.name = fmt::format("{}/part_{}", whole.name, part);
  options.shape = Shape::unknown();
  return options;
}

}  // namespace

const DeviceName& ParameterServerExtended::next_server() {
  group_updates_.drop_ended();
  const std::lock_guard lock(mutex_);
  forget_released();
  size_t chosen = variables_++ % servers_->size();
  if (options_.placement == VariablePlacement::ByBytes) {
    const auto& bytes = plan_.bytes_per_ps;
    chosen = static_cast<size_t>(std::ranges::min_element(bytes) - bytes.begin());
  }
  return servers_->device(chosen);
}

void ParameterServerExtended::note(const RemoteVariable& variable, const DeviceName& device,
                                   const Tensor& value) {
  const int64_t bytes = bytes_of(value);
  const std::lock_guard lock(mutex_);
  forget_released();
  plan_.variables.push_back({variable.unique_name(), device.to_string(), bytes});
  planned_.push_back({variable.lease(), variable.trainable() ? 2 * bytes : 0});
  for (size_t ps = 0; ps < servers_->size(); ++ps) {
    if (servers_->device(ps) == device) plan_.bytes_per_ps[ps] += bytes;
  }
  plan_.bytes_per_step += planned_.back().bytes_per_step;
}

void ParameterServerExtended::forget_released() const {
  for (size_t i = planned_.size(); i-- > 0;) {
    if (!planned_[i].lease.expired()) continue;
    const auto& gone = plan_.variables[i];
    for (size_t ps = 0; ps < servers_->size(); ++ps) {
      if (servers_->device(ps).to_string() == gone.device) plan_.bytes_per_ps[ps] -= gone.bytes;
    }
    plan_.bytes_per_step -= planned_[i].bytes_per_step;
    plan_.variables.erase(plan_.variables.begin() + static_cast<ptrdiff_t>(i));
    planned_.erase(planned_.begin() + static_cast<ptrdiff_t>(i));
  }
}

Variable ParameterServerExtended::create_variable(const NextCreator& next,
                                                  const VariableRequest& request) {
  if (builds_session_graph()) {
    raise(Code::Unimplemented,
          "[ParameterServerStrategy] variable '{}' was made while a graph is being built; make it "
          "outside, or place the graph's variables with replica_device_setter()",
          request.options.name);
  }
  const auto* in_parts = request.initializer.target<PartInitializer>();
  if (in_parts != nullptr) {
    const DType dtype = request.options.dtype.value_or(in_parts->dtype());
    const auto parts = parts_of(request.options.name, {dtype, in_parts->shape()});
    if (parts) return create_in_parts(next, request, *in_parts, *parts);
  }
  const Made made = make_here(next, request);
  const ValuesAreMadeHere here_first;
  const Graph::Scope untraced(nullptr);  // the value is sent now, also while a function is traced
  const VariableRequest settled{request.initializer, made.options};
  const auto parts = parts_of(made.options.name, {made.value.dtype(), made.value.shape()});
  return parts ? place_parts(settled, made.value, *parts, made.asked)
               : place(settled, made.value, made.asked);
}

ParameterServerExtended::Made ParameterServerExtended::make_here(const NextCreator& next,
                                                                 const VariableRequest& request) {
  const ValuesAreMadeHere here_first;
  const Variable here = next(request);
  Made made{.value = {}, .options = VariableAccess::impl(here)->options(), .asked = std::nullopt};
  const DeviceName& asked = here_first.asked();
  if (asked != requested_device("", "") && asked.job == "ps") made.asked = asked;
  const Graph::Scope untraced(nullptr);
  made.value = read_copy(here);
  return made;
}

Variable ParameterServerExtended::create_in_parts(const NextCreator& next,
                                                  const VariableRequest& request,
                                                  const PartInitializer& initializer,
                                                  int64_t parts) {
  const Shape& whole = initializer.shape();
  const DivSharding sizes(whole[0], parts);
  std::vector<Variable> shards;
  for (int64_t i = 0; i < sizes.parts(); ++i) {
    std::vector<int64_t> offset(static_cast<size_t>(whole.rank()));
    offset[0] = sizes.begin(i);
    const VariableRequest one{
        [&] { return initializer.part(whole.with(0, sizes.size(i)), offset); },
        options_of_part(request.options, i)};
    const Made made = make_here(next, one);
    const ValuesAreMadeHere here_first;
    const Graph::Scope untraced(nullptr);
    shards.push_back(place({one.initializer, made.options}, made.value, made.asked));
  }
  return make_sharded(std::move(shards), request.options.name);
}

std::optional<int64_t> ParameterServerExtended::parts_of(const std::string& variable,
                                                         const Spec& spec) const {
  const bool together = !CreationDevices::current({}).empty();
  if (!options_.variable_partitioner || spec.shape.rank() == 0 || together) return std::nullopt;
  const std::vector<int64_t> parts = options_.variable_partitioner(spec.shape, spec.dtype, 0);
  const bool fits = parts.size() == static_cast<size_t>(spec.shape.rank()) && parts[0] >= 1 &&
                    std::all_of(parts.begin() + 1, parts.end(), [](int64_t n) { return n == 1; });
  if (!fits) {
    raise(Code::InvalidArgument,
          "[ParameterServerStrategy] the partitioner cuts variable '{}' of shape {} into ({}) "
          "parts; only the first dimension is cut, and the others have one part",
          variable, spec.shape.to_string(), fmt::join(parts, ", "));
  }
  if (parts[0] == 1) return std::nullopt;
  return parts[0];
}

Variable ParameterServerExtended::place_parts(const VariableRequest& request, const Tensor& value,
                                              int64_t parts,
                                              const std::optional<DeviceName>& asked) {
  const DivSharding sizes(value.shape()[0], parts);
  std::vector<Variable> shards;
  for (int64_t i = 0; i < sizes.parts(); ++i) {
    const VariableRequest one{request.initializer, options_of_part(request.options, i)};
    const int64_t begin = sizes.begin(i);
    const Tensor rows = identity(slice(value, {{.begin = begin, .end = begin + sizes.size(i)}}));
    shards.push_back(place(one, rows, asked));
  }
  return make_sharded(std::move(shards), request.options.name);
}

Variable ParameterServerExtended::place(const VariableRequest& request, const Tensor& value,
                                        const std::optional<DeviceName>& asked) {
  const std::vector<std::string> together = CreationDevices::current({});
  DeviceName device = together.empty() ? next_server() : DeviceName::parse(together[0]);
  if (asked) device = asked->filled_from(device);
  const VariableRequest one{ConstantInitializer{value}, request.options};
  const auto make_there = [&](const VariableRequest& wanted) {
    const Shape shape = wanted.options.shape.has_rank() ? wanted.options.shape : value.shape();
    const auto far = std::make_shared<RemoteVariable>(
        wanted.options, shape, value.dtype(),
        RemoteVariable::Place{servers_, device, servers_->unique_name(wanted.options.name)});
    far->strategy = &strategy();
    check_room(far->unique_name(), device, bytes_of(value));
    begin(*far, value);
    note(*far, device, value);
    return VariableAccess::make(std::make_shared<CachingVariable>(VariableAccess::make(far)));
  };
  return make_aggregating_variable(strategy(), device.to_string(), make_there, one);
}

void ParameterServerExtended::check_room(const std::string& variable, const DeviceName& device,
                                         int64_t bytes) const {
  if (!options_.ps_memory_bytes) return;
  const ParameterServerPlan now = plan();
  for (size_t ps = 0; ps < servers_->size(); ++ps) {
    const int64_t wanted = now.bytes_per_ps[ps] + bytes;
    if (servers_->device(ps) != device || wanted <= *options_.ps_memory_bytes) continue;
    raise(Code::ResourceExhausted,
          "[ParameterServerStrategy] {} has room for {} bytes of variables; with '{}', which has "
          "{}, it would hold {}. Use more ps tasks, a partitioner, or VariablePlacement::ByBytes. "
          "The plan so far:\n{}",
          device.split().first, *options_.ps_memory_bytes, variable, bytes, wanted,
          now.to_string());
  }
}

void ParameterServerExtended::begin(RemoteVariable& variable, const Tensor& value) const {
  const Status status = capture_status([&] { variable.write(Write::Assign, value); });
  if (status.ok()) return;
  if (status.code != Code::ResourceExhausted) throw Error(status);
  raise(Code::ResourceExhausted,
        "[ParameterServerStrategy] {} has no memory for variable '{}' of {} bytes: {}. Use more ps "
        "tasks, a partitioner, or VariablePlacement::ByBytes. The plan so far:\n{}",
        variable.device(), variable.unique_name(), bytes_of(value), status.message,
        plan().to_string());
}

}  // namespace cohort::internal
