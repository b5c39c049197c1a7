#pragma once

#include <string_view>

#include "cohort/nn_layers.h"
#include "graph/scopes.h"

// What the layers have in common. `layer` is a layer's name, for messages.
namespace cohort::internal {

// Throws InvalidArgument unless `size`, described by `what`, is at least 1.
void require_positive(std::string_view layer, std::string_view what, int64_t size);

// A variable of that name, initialised when it is made. `first_call_of` is the layer whose first
// call makes it, null when it is made with the layer.
Variable make_variable(std::string name, const nn::Initializer& initializer, const Shape& shape,
                       DType dtype, const void* first_call_of = nullptr);
// One that moves with what a layer sees: not trained, and averaged over replicas when read.
Variable make_statistic(std::string name, const nn::Initializer& initializer, const Shape& shape,
                        DType dtype, const void* first_call_of = nullptr);

// Throws InvalidArgument unless dimension `axis` of x, where known, has `size`.
void require_size(std::string_view layer, const Tensor& x, int axis, int64_t size,
                  std::string_view what);

// The size of dimension `axis` of x, for a layer that is made for it. Throws InvalidArgument where
// x does not have that dimension or, while a function is traced, does not know its size.
int64_t size_to_infer(std::string_view layer, const Tensor& x, int axis, std::string_view what);

// What `make` gives; the nodes that it adds to a graph were made at `site`.
template <typename Make>
Tensor made_at(Site site, const Make& make) {
  const SiteScope there(site);
  return make();
}

// Throws FailedPrecondition.
[[noreturn]] void raise_not_built(std::string_view layer, std::string_view what);

// The variables of a layer that has been made for an input with so many `what`.
template <typename Weights>
const Weights& made_weights(const MadeOnce<Weights>& weights, std::string_view layer,
                            std::string_view what) {
  if (const Weights* made = weights.get()) return *made;
  raise_not_built(layer, what);
}

}  // namespace cohort::internal
