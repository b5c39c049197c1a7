#include "autodiff/backward.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/raise.h"
#include "cohort/ops.h"
#include "ops/infer.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

using Id = const TensorBody*;

Id id(const Tensor& tensor) { return TensorAccess::id(tensor); }

// A call that takes a variable's handle depends on the variable only where functions read it:
// elsewhere the reads are sources of their own.
bool has_influence(const OpCall& call, size_t input) {
  return call.inputs[input].dtype() != kResource || call.op->gradient != nullptr;
}

// Marks in each call which inputs depend on a source, and drops the calls where none does or where
// the dependence ends (stop_gradient, steps): what comes after them need not have a gradient.
void keep_influenced(std::vector<OpCall>& calls, std::span<const Tensor> sources) {
  std::unordered_set<Id> influenced;
  for (const Tensor& source : sources) influenced.insert(id(source));
  std::erase_if(calls, [&](OpCall& call) {
    bool any = false;
    call.wanted = call.inputs.size() > 32 ? ~0u : 0u;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (!influenced.contains(id(call.inputs[i])) || !has_influence(call, i)) continue;
      any = true;
      if (i < 32) call.wanted |= 1u << i;
    }
    if (!any || call.op->gradient == no_influence) return true;
    for (const Tensor& output : call.outputs) {
      if (is_floating(output.dtype())) influenced.insert(id(output));
    }
    return false;
  });
}

IndexedSlices join(const IndexedSlices& a, const IndexedSlices& b) {
  return {concat({a.values, b.values}, 0), concat({a.indices, b.indices}, 0), a.dense_shape};
}

// The sum of two gradients, either of which may be undefined; rows stay rows.
Gradient add_gradients(const Gradient& a, const Gradient& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  if (a.is_sparse() && b.is_sparse()) return join(a.slices(), b.slices());
  return a.dense() + b.dense();
}

// The gradients known so far, by tensor.
class GradientSums {
 public:
  void add(const Tensor& tensor, const Gradient& gradient) {
    if (!gradient.defined()) return;
    Gradient& sum = sums_[id(tensor)];
    sum = add_gradients(sum, gradient);
  }
  bool has(const Tensor& tensor) const { return sums_.contains(id(tensor)); }
  Gradient of(const Tensor& tensor) const {
    const auto found = sums_.find(id(tensor));
    return found == sums_.end() ? Gradient() : found->second;
  }
  void forget(const Tensor& tensor) { sums_.erase(id(tensor)); }

 private:
  std::unordered_map<Id, Gradient> sums_;
};

// One dense gradient per output: zeros for those that have none, nothing for those that cannot have
// one.
std::vector<Tensor> output_gradients(const OpCall& call, const GradientSums& sums) {
  std::vector<Tensor> gradients;
  for (const Tensor& output : call.outputs) {
    const Gradient gradient = sums.of(output);
    if (gradient.defined()) {
      gradients.push_back(gradient.dense());
    } else {
      gradients.push_back(is_floating(output.dtype()) ? zeros_like(output) : Tensor());
    }
  }
  return gradients;
}

Gradients input_gradients(const OpCall& call, const GradientSums& sums) {
  if (call.op->gradient == nullptr) {
    raise(Code::Unimplemented,
          "[{}] has no gradient because {}; apply stop_gradient() to its inputs to leave it out of "
          "the derivative",
          call.op->name, call.op->no_gradient_because);
  }
  return call.op->gradient(call, output_gradients(call, sums));
}

void visit(const OpCall& call, GradientSums& sums) {
  const bool reached = std::any_of(call.outputs.begin(), call.outputs.end(),
                                   [&](const Tensor& output) { return sums.has(output); });
  if (!reached) return;
  const Gradients gradients = input_gradients(call, sums);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const DType dtype = call.inputs[i].dtype();
    if (call.wants(i) && (is_floating(dtype) || dtype == kResource))
      sums.add(call.inputs[i], gradients[i]);
  }
}

// Counts how often the calls to come use each source: until then its gradient may still change.
class Uses {
 public:
  Uses(const std::vector<OpCall>& calls, std::span<const Tensor> sources) {
    for (size_t i = 0; i < sources.size(); ++i) sources_[id(sources[i])].numbers.push_back(i);
    for (const OpCall& call : calls) {
      for (const Tensor& input : call.inputs) {
        const auto source = sources_.find(id(input));
        if (source != sources_.end()) ++source->second.left;
      }
    }
  }

  // Reports the sources that this call used last.
  void visited(const OpCall& call, const GradientSums& sums, const FinalGradient& final) {
    for (const Tensor& input : call.inputs) {
      const auto source = sources_.find(id(input));
      if (source == sources_.end() || --source->second.left > 0) continue;
      report(source->second, sums.of(input), final);
    }
  }
  // Reports the sources that no call used.
  void end(std::span<const Tensor> sources, const GradientSums& sums, const FinalGradient& final) {
    for (const Tensor& source : sources) report(sources_[id(source)], sums.of(source), final);
  }

 private:
  struct Source {
    size_t left = 0;
    std::vector<size_t> numbers = {};
    bool is_reported = false;
  };
  static void report(Source& source, const Gradient& gradient, const FinalGradient& final) {
    if (std::exchange(source.is_reported, true)) return;
    for (const size_t number : source.numbers) final(number, gradient);
  }

  std::unordered_map<Id, Source> sources_;
};

}  // namespace

Gradients backward(std::vector<OpCall> calls, std::span<const Tensor> targets,
                   std::span<const Tensor> seeds, const std::vector<std::vector<Tensor>>& groups,
                   const FinalGradient& final) {
  std::vector<Tensor> sources;
  for (const auto& group : groups) sources.insert(sources.end(), group.begin(), group.end());
  keep_influenced(calls, sources);
  std::optional<Uses> uses;
  if (final) uses.emplace(calls, sources);
  GradientSums sums;
  for (size_t i = 0; i < targets.size(); ++i) sums.add(targets[i], seeds[i]);
  std::unordered_set<Id> kept;
  for (const Tensor& source : sources) kept.insert(id(source));
  while (!calls.empty()) {
    visit(calls.back(), sums);
    for (const Tensor& output : calls.back().outputs) {
      if (!kept.contains(id(output))) sums.forget(output);
    }
    if (uses) uses->visited(calls.back(), sums, final);
    calls.pop_back();
  }
  if (uses) uses->end(sources, sums, final);
  Gradients results;
  for (const auto& group : groups) {
    Gradient sum;
    for (const Tensor& source : group) sum = add_gradients(sum, sums.of(source));
    results.push_back(sum);
  }
  return results;
}

}  // namespace cohort::internal
