#pragma once

// Types of Tensor's parameters. Not for inclusion by users: include cohort/tensor.h.

#include <concepts>
#include <cstdint>

#include "cohort/dtype.h"
#include "cohort/error.h"

namespace cohort::internal {

// ListItem is a type that braces may hold: an element type, or a string literal (a std::string).
template <typename T>
concept ListItem = TensorElement<T> || std::same_as<T, const char*> || std::same_as<T, char*>;

// The position in tensor[position], and the source line of the expression.
class Subscript {
 public:
  template <std::integral T>
  Subscript(T position, Site site = Site::here())
      : position_(static_cast<int64_t>(position)), site_(site) {}

  int64_t position() const { return position_; }
  Site site() const { return site_; }

 private:
  int64_t position_;
  Site site_;
};

}  // namespace cohort::internal
