#include "coordinator/group_updates.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/ops.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

extern const OpDef kAccumulatorApply;
extern const OpDef kAccumulatorTake;
extern const OpDef kSparseAccumulatorApply;
extern const OpDef kSparseAccumulatorTake;

namespace {

const RemoteAccumulator& accumulator_of(const Tensor& handle) {
  return dynamic_cast<const RemoteAccumulator&>(*resource_of(handle));
}

Attrs attrs_of(const RemoteAccumulator& accumulator) {
  return {{"dtype", accumulator.dtype()}, {"shape", accumulator.shape()}};
}

// Functions of a group begin when the update before is over, so that no gradient comes too late.
Tensor add_gradient(const Tensor& handle, const Gradient& gradient) {
  const RemoteAccumulator& accumulator = accumulator_of(handle);
  const Tensor never_late(std::numeric_limits<int64_t>::max());
  Attrs attrs = attrs_of(accumulator);
  attrs.set("accumulator", accumulator.name());
  if (!accumulator.sparse()) {
    return apply(kAccumulatorApply, {handle, gradient.dense(), never_late}, std::move(attrs), {});
  }
  const IndexedSlices& rows = gradient.slices();
  return apply(kSparseAccumulatorApply, {handle, rows.values, rows.indices, never_late},
               std::move(attrs), {});
}

// The mean of all that are there; at least one is.
Gradient take_mean(const Tensor& handle) {
  const RemoteAccumulator& accumulator = accumulator_of(handle);
  const Tensor any(int64_t{1});
  if (!accumulator.sparse()) {
    return apply(kAccumulatorTake, {handle, any}, attrs_of(accumulator), {});
  }
  const Tensor inputs[] = {handle, any};
  const std::vector<Tensor> rows =
      apply_many(kSparseAccumulatorTake, inputs, attrs_of(accumulator), {});
  return IndexedSlices{rows[0], rows[1], accumulator.shape()};
}

int kind_of(const Gradient& gradient) {
  return !gradient.defined() ? 0 : gradient.is_sparse() ? 2 : 1;
}

}  // namespace

RemoteAccumulator::RemoteAccumulator(const GroupUpdate& update, size_t number,
                                     const Variable& variable, bool sparse)
    : update_(update),
      name_(fmt::format("{}/{}/{}", update.name, number, variable.name())),
      device_(DeviceName::parse(variable.device())),
      dtype_(variable.dtype()),
      shape_(variable.shape()),
      sparse_(sparse) {}

std::string gathering_container(const std::string& container) { return container + "_gathering"; }

GroupUpdates::Gathered& GroupUpdates::find_or_make(const Gradients& gradients,
                                                   const std::vector<Variable>& variables,
                                                   const Variable& count, const Update& update) {
  Key key{{VariableAccess::impl(count).get(), 0}};
  for (size_t i = 0; i < variables.size(); ++i) {
    key.emplace_back(VariableAccess::impl(variables[i]).get(), kind_of(gradients[i]));
  }
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Gathered>& entry = all_[key];
  if (entry && entry->settings.are_current()) return *entry;
  if (entry) outdated_.push_back(std::move(entry));
  auto made = std::make_unique<Gathered>(
      Gathered{.update = {.name = fmt::format("group_update_{}", made_++),
                          .home = DeviceName::parse(variables[0].device())},
               .handles = std::vector<Tensor>(variables.size()),
               .variables = variables,
               .count = count});
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].defined()) continue;
    made->handles[i] = make_resource(std::make_shared<RemoteAccumulator>(
        made->update, i, variables[i], gradients[i].is_sparse()));
  }
  const SettingsScope noting;
  made->update.function = trace(made->update.name, {}, [&](std::span<const Tensor>) {
    Gradients means;
    for (const Tensor& handle : made->handles) {
      means.push_back(handle.defined() ? take_mean(handle) : Gradient());
    }
    return std::vector<Tensor>{update(means)};
  });
  made->settings = noting.used();
  entry = std::move(made);
  return *entry;
}

Tensor GroupUpdates::add(const Gradients& gradients, const std::vector<Variable>& variables,
                         const Variable& count, const Update& update) {
  const Gathered& gathered = find_or_make(gradients, variables, count, update);
  SettingsScope::note(gathered.settings);
  std::vector<Tensor> added;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) added.push_back(add_gradient(gathered.handles[i], gradients[i]));
  }
  return group(added);
}

std::vector<const GroupUpdate*> GroupUpdates::of(const GraphFunction& function) {
  std::vector<const GroupUpdate*> found;
  for (const Tensor& captured : function.captured) {
    if (captured.is_symbolic()) continue;
    const auto* accumulator = dynamic_cast<const RemoteAccumulator*>(resource_of(captured).get());
    if (accumulator == nullptr || std::ranges::find(found, &accumulator->update()) != found.end()) {
      continue;
    }
    found.push_back(&accumulator->update());
  }
  return found;
}

}  // namespace cohort::internal
