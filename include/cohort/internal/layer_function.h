#pragma once

// What layers are made of. Not for inclusion by users: include cohort/nn_layers.h.

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "cohort/tensor.h"

namespace cohort::internal {

// LayerLike is a type that takes a tensor and returns a tensor.
template <typename T>
concept LayerLike = requires(const std::remove_cvref_t<T>& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

// A layer that records the caller's source line takes a Site after the tensor, or after options.
template <typename T>
concept TakesSite = requires(const T& layer, const Tensor& x, Site site) {
  { layer(x, site) } -> std::convertible_to<Tensor>;
};
template <typename T>
concept TakesOptionsAndSite = requires(const T& layer, const Tensor& x, Site site) {
  { layer(x, {}, site) } -> std::convertible_to<Tensor>;
};

// LayerFunction is a function of a tensor. It passes on the caller's source line if possible.
class LayerFunction {
 public:
  LayerFunction() = default;
  LayerFunction(std::nullptr_t) {}
  template <typename T>
  requires(LayerLike<T> && !std::same_as<std::remove_cvref_t<T>, LayerFunction>)
      LayerFunction(T&& layer) {
    using Layer = std::decay_t<T>;
    if constexpr (std::same_as<Layer, std::function<Tensor(const Tensor&)>>) {
      if (!layer) return;
    }
    call_ = [layer = Layer(std::forward<T>(layer))](const Tensor& x, Site site) -> Tensor {
      if constexpr (TakesSite<Layer>) {
        return layer(x, site);
      } else if constexpr (TakesOptionsAndSite<Layer>) {
        return layer(x, {}, site);
      } else {
        return layer(x);
      }
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  Tensor operator()(const Tensor& x, Site site = Site::here()) const { return call_(x, site); }

 private:
  std::function<Tensor(const Tensor&, Site)> call_;
};

}  // namespace cohort::internal
