#pragma once

// Definitions of the templates of nn::Sequential. Not for inclusion by users: include
// cohort/nn_layers.h.

#include "cohort/nn_layers.h"

namespace cohort::nn {

template <typename... Layers>
requires(sizeof...(Layers) > 1 &&
         (internal::LayerLike<Layers> && ...)) Sequential::Sequential(Layers&&... layers)
    : Sequential() {
  (push_back(std::forward<Layers>(layers)), ...);
}

template <internal::LayerLike Layer>
requires(!std::same_as<std::remove_cvref_t<Layer>, Sequential>)
    Sequential::Sequential(Layer&& layer)
    : Sequential() {
  push_back(std::forward<Layer>(layer));
}

template <internal::LayerLike Layer>
void Sequential::push_back(Layer&& layer) {
  if constexpr (std::derived_from<std::remove_cvref_t<Layer>, Module>) {
    register_module(std::to_string(size()), layer);
  }
  layers_->emplace_back(std::forward<Layer>(layer));
}

}  // namespace cohort::nn
