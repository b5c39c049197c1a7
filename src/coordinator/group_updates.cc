#include "coordinator/group_updates.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/ops.h"
#include "coordinator/parameter_servers.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::internal {
namespace {

const RemoteAccumulator& accumulator_of(const Tensor& handle) {
  return dynamic_cast<const RemoteAccumulator&>(*resource_of(handle));
}

Attrs attrs_of(const RemoteAccumulator& accumulator) {
  return {{"dtype", accumulator.dtype()}, {"shape", accumulator.shape()}};
}

// The functions of a group begin after the previous update, so no gradient comes too late.
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

// The mean of all gradients that have come, at least one.
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

// One for each variable; null for a variable without a gradient.
using Accumulators = std::vector<std::shared_ptr<RemoteAccumulator>>;

Accumulators accumulators_for(const std::string& update, const Gradients& gradients,
                              const std::vector<Variable>& variables) {
  Accumulators made(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].defined()) continue;
    made[i] =
        std::make_shared<RemoteAccumulator>(fmt::format("{}/{}/{}", update, i, variables[i].name()),
                                            variables[i], gradients[i].is_sparse());
  }
  return made;
}

Gradients take_means(const Accumulators& accumulators) {
  Gradients means;
  for (const auto& each : accumulators) {
    means.push_back(each ? take_mean(make_resource(each)) : Gradient());
  }
  return means;
}

int kind_of(const Gradient& gradient) {
  return !gradient.defined() ? 0 : gradient.is_sparse() ? 2 : 1;
}

}  // namespace

RemoteAccumulator::RemoteAccumulator(std::string name, const Variable& variable, bool sparse)
    : name_(std::move(name)),
      device_(DeviceName::parse(variable.device())),
      dtype_(variable.dtype()),
      shape_(variable.shape()),
      sparse_(sparse) {}

std::string gathering_container(const std::string& container) { return container + "_gathering"; }

bool GroupUpdates::Gathered::has_ended() const {
  return std::ranges::any_of(variables, [](const auto& each) { return each.expired(); });
}

void GroupUpdates::drop_ended() {
  std::vector<GatheredPtr> ended;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const auto& entry) {
    if (!entry.second->has_ended()) return false;
    ended.push_back(entry.second);
    return true;
  });
}

GroupUpdates::GatheredPtr GroupUpdates::find_or_make(const Gradients& gradients,
                                                     const std::vector<Variable>& variables,
                                                     const Variable& count, const Update& update) {
  std::vector<Variable> named = variables;
  named.push_back(count);
  Key key;
  for (size_t i = 0; i < named.size(); ++i) {
    const int kind = i < gradients.size() ? kind_of(gradients[i]) : 0;
    key.emplace_back(VariableAccess::impl(named[i]).get(), kind);
  }
  drop_ended();  // a key may have the address of a variable that has ended
  const std::lock_guard one_at_a_time(making_);
  GatheredPtr known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = all_.find(key); found != all_.end()) known = found->second;
  }
  if (known && known->settings.are_current()) return known;
  auto made = std::make_shared<Gathered>(make(gradients, variables, update, known.get()));
  for (const Variable& each : named) made->variables.push_back(VariableAccess::impl(each));
  GatheredPtr outdated;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  outdated = std::exchange(all_[key], made);
  return made;
}

GroupUpdates::Gathered GroupUpdates::make(const Gradients& gradients,
                                          const std::vector<Variable>& variables,
                                          const Update& update, const Gathered* outdated) {
  const int number = made_++;
  GroupUpdate made{.name = fmt::format("group_update_{}", number),
                   .home = DeviceName::parse(variables[0].device())};
  made.number = number;
  made.gathering = outdated != nullptr ? outdated->update->gathering : made.name;
  // A setting, such as the learning rate, may change within a group. The new update takes over the
  // accumulators with the gradients that have come.
  const Accumulators accumulators = outdated != nullptr
                                        ? outdated->accumulators
                                        : accumulators_for(made.name, gradients, variables);
  made.leases.push_back(servers_->lease_update(made.home, made.name));
  if (outdated != nullptr) {
    const auto& shared = outdated->update->leases;  // the first lease is that of the plan
    made.leases.insert(made.leases.end(), shared.begin() + 1, shared.end());
  } else {
    for (const auto& each : accumulators) {
      if (each) made.leases.push_back(servers_->lease_update(each->device(), each->name()));
    }
  }
  const SettingsScope noting;
  made.function = trace(made.name, {}, [&](std::span<const Tensor>) {
    return std::vector<Tensor>{update(take_means(accumulators))};
  });
  const auto shared = std::make_shared<const GroupUpdate>(std::move(made));
  Gathered gathered{.update = shared, .accumulators = accumulators, .settings = noting.used()};
  for (const auto& each : accumulators) {
    gathered.handles.push_back(each ? make_resource(each->for_adding_to(shared)) : Tensor());
  }
  return gathered;
}

Tensor GroupUpdates::add(const Gradients& gradients, const std::vector<Variable>& variables,
                         const Variable& count, const Update& update) {
  const GatheredPtr gathered = find_or_make(gradients, variables, count, update);
  SettingsScope::note(gathered->settings);
  std::vector<Tensor> added;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) added.push_back(add_gradient(gathered->handles[i], gradients[i]));
  }
  return group(added);
}

std::vector<GroupUpdatePtr> GroupUpdates::of(const GraphFunction& function) {
  std::vector<GroupUpdatePtr> found;
  for (const Tensor& captured : function.captured) {
    if (captured.is_symbolic()) continue;
    const auto* accumulator = dynamic_cast<const RemoteAccumulator*>(resource_of(captured).get());
    if (accumulator == nullptr || accumulator->update() == nullptr ||
        std::ranges::find(found, accumulator->update()) != found.end()) {
      continue;
    }
    found.push_back(accumulator->update());
  }
  return found;
}

}  // namespace cohort::internal
