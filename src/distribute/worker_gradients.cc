#include "distribute/worker_gradients.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>

#include "cohort/ops.h"
#include "distribute/sparse_reduction.h"
#include "distribute/worker_reductions.h"

namespace cohort::internal {
namespace {

// While one pack of this size is reduced the next one is written.
constexpr int64_t kBytesPerPack = 8 << 20;

std::vector<VariableImpl*> identities(const std::vector<Variable>& variables) {
  std::vector<VariableImpl*> all;
  for (const Variable& variable : variables) all.push_back(VariableAccess::impl(variable).get());
  return all;
}

int64_t bytes_of(const Variable& variable) {
  return variable.shape().num_elements() * size_of(variable.dtype());
}

// The rows of a gradient of any form.
IndexedSlices as_rows(const Gradient& gradient, const Variable& variable) {
  if (gradient.defined() && gradient.is_sparse()) return gradient.slices();
  Shape none = variable.shape();
  std::vector<int64_t> sizes(none.begin(), none.end());
  sizes[0] = 0;
  const IndexedSlices empty{zeros(Shape(sizes), variable.dtype()), zeros({0}, kInt64),
                            variable.shape()};
  if (!gradient.defined()) return empty;
  const std::vector<Gradient> parts{gradient, Gradient(empty)};
  return join_slices(ReduceOp::Sum, parts);
}

}  // namespace

std::vector<Gradient> WorkerGradients::sum(const std::vector<Gradient>& own,
                                           const std::vector<Variable>& variables,
                                           const CommunicationOptions& options) {
  const std::lock_guard lock(mutex_);
  Layout& layout = layout_for(own, variables, options);
  reduce_packs(layout, own, options);
  const std::span<const float> counts = layout.packs.back().data<float>(0);
  std::vector<Gradient> sums(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    if (counts[i] == 0) continue;
    if (layout.has_rows[i]) {
      sums[i] = workers_.all_reduce(as_rows(own[i], variables[i]), ReduceOp::Sum,
                                    collective_options(options));
    } else {
      sums[i] = layout.packs[layout.places[i].pack].view(layout.places[i].index);
    }
  }
  return sums;
}

WorkerGradients::Layout& WorkerGradients::layout_for(const std::vector<Gradient>& own,
                                                     const std::vector<Variable>& variables,
                                                     const CommunicationOptions& options) {
  const std::vector<VariableImpl*> wanted = identities(variables);
  for (const auto& known : layouts_) {
    if (known->variables == wanted) return *known;
  }
  auto made = std::make_unique<Layout>(Layout{.variables = wanted});
  agree_on_rows(*made, own);
  make_packs(*made, variables, options);
  return *layouts_.emplace_back(std::move(made));
}

void WorkerGradients::agree_on_rows(Layout& layout, const std::vector<Gradient>& own) {
  std::vector<int32_t> rows;
  for (const Gradient& gradient : own) rows.push_back(gradient.defined() && gradient.is_sparse());
  const Tensor any = workers_.all_reduce(Tensor::from(rows), ReduceOp::Max);
  for (const int32_t each : any.to_vector<int32_t>()) layout.has_rows.push_back(each != 0);
}

void WorkerGradients::make_packs(Layout& layout, const std::vector<Variable>& variables,
                                 const CommunicationOptions& options) {
  const int64_t limit = options.bytes_per_pack > 0 ? options.bytes_per_pack : kBytesPerPack;
  struct Plan {
    DType dtype;
    std::vector<Shape> shapes = {};
    int64_t bytes = 0;
  };
  std::vector<Plan> plans;
  std::map<DType, size_t> open;  // the plan that is being filled, by dtype
  layout.places.resize(variables.size());
  // The last gradients are ready first.
  for (size_t i = variables.size(); i-- > 0;) {
    if (layout.has_rows[i]) continue;
    const auto found = open.find(variables[i].dtype());
    if (found == open.end() || plans[found->second].bytes > limit) {
      open[variables[i].dtype()] = plans.size();
      plans.push_back({.dtype = variables[i].dtype()});
    }
    const size_t number = open[variables[i].dtype()];
    layout.places[i] = {number, plans[number].shapes.size()};
    plans[number].shapes.push_back(variables[i].shape());
    plans[number].bytes += bytes_of(variables[i]);
  }
  plans.push_back({.dtype = kFloat32});
  plans.back().shapes.push_back(Shape{static_cast<int64_t>(variables.size())});
  const CollectiveOptions how = collective_options(options);
  for (const Plan& plan : plans) {
    layout.packs.push_back(workers_.make_pack(plan.dtype, plan.shapes, how));
  }
}

void WorkerGradients::reduce_packs(Layout& layout, const std::vector<Gradient>& own,
                                   const CommunicationOptions& options) {
  const CollectiveOptions how = collective_options(options);
  std::vector<std::future<void>> running;
  const auto reduce = [&](size_t number) {
    if (layout.packs.size() > 2) {
      running.push_back(workers_.start_all_reduce(layout.packs[number], ReduceOp::Sum, how));
    } else {
      workers_.all_reduce(layout.packs[number], ReduceOp::Sum, how);
    }
  };
  const std::span<float> counts = layout.packs.back().data<float>(0);
  std::vector<size_t> left(layout.packs.size(), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    counts[i] = own[i].defined() ? 1 : 0;
    if (!layout.has_rows[i]) ++left[layout.places[i].pack];
  }
  for (size_t i = own.size(); i-- > 0;) {
    if (layout.has_rows[i]) continue;
    const Place place = layout.places[i];
    Pack& pack = layout.packs[place.pack];
    pack.write(place.index,
               own[i].defined() ? own[i].dense() : zeros(pack.shape(place.index), pack.dtype()));
    if (--left[place.pack] == 0) reduce(place.pack);
  }
  reduce(layout.packs.size() - 1);
  for (std::future<void>& each : running) each.get();
}

}  // namespace cohort::internal
