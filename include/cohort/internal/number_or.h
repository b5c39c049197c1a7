#pragma once

#include <optional>

// Not for inclusion by users: include cohort/dataset.h.

namespace cohort::data::internal {

// NumberOr is a number or a special value, no_number(). The tag makes it a type of its own.
template <typename Number, typename Tag>
class NumberOr {
 public:
  constexpr NumberOr(Number number) : number_(number) {}
  static constexpr NumberOr no_number() { return NumberOr(std::nullopt); }

  // Returns nullopt for no_number().
  constexpr std::optional<Number> number() const { return number_; }
  friend constexpr bool operator==(NumberOr, NumberOr) = default;

 private:
  explicit constexpr NumberOr(std::nullopt_t) {}

  std::optional<Number> number_;
};

}  // namespace cohort::data::internal
