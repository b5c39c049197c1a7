#pragma once

#include <string_view>

#include "cohort/nn_layers.h"
#include "graph/scopes.h"

// What the layers have in common. `layer` is a layer's name, for messages.
namespace cohort::internal {

// Throws InvalidArgument unless `size`, described by `what`, is at least 1.
void require_positive(std::string_view layer, std::string_view what, int64_t size);

// A variable that is initialised when it is made. `first_call_of` is the layer whose first call
// makes the variable; null when the layer's constructor makes it.
Variable make_variable(std::string name, const nn::Initializer& initializer, const Shape& shape,
                       DType dtype, const void* first_call_of = nullptr);
// A statistic of what a layer sees: not trained, and averaged over replicas when it is read.
Variable make_statistic(std::string name, const nn::Initializer& initializer, const Shape& shape,
                        DType dtype, const void* first_call_of = nullptr);

// Throws InvalidArgument unless dimension `axis` of x, where known, has `size`.
void require_size(std::string_view layer, const Tensor& x, int axis, int64_t size,
                  std::string_view what);

// The size of dimension `axis` of x, for a layer whose first call tells its size. Throws
// InvalidArgument where x does not have that dimension or, while a function is traced, does not
// know its size.
int64_t size_to_infer(std::string_view layer, const Tensor& x, int axis, std::string_view what);

// Returns make(). The nodes that it adds to a graph have this site.
template <typename Make>
Tensor made_at(Site site, const Make& make) {
  const SiteScope there(site);
  return make();
}

// The kernel and, where the options ask for it, the bias of a layer.
template <typename Weights, typename Options>
Weights make_kernel_and_bias(const std::string& layer, const Options& options,
                             const Shape& kernel_shape, int64_t outputs,
                             const void* first_call_of) {
  Weights made{make_variable(layer + "/kernel", options.kernel_initializer, kernel_shape,
                             options.dtype, first_call_of),
               std::nullopt};
  if (options.use_bias) {
    made.bias = make_variable(layer + "/bias", options.bias_initializer, {outputs}, options.dtype,
                              first_call_of);
  }
  return made;
}

// Throws FailedPrecondition.
[[noreturn]] void raise_not_built(std::string_view layer, std::string_view what);

// The variables of a layer. Throws FailedPrecondition while the number of `what` is unknown.
template <typename Weights>
const Weights& made_weights(const MadeOnce<Weights>& weights, std::string_view layer,
                            std::string_view what) {
  if (const Weights* made = weights.get()) return *made;
  raise_not_built(layer, what);
}

}  // namespace cohort::internal
