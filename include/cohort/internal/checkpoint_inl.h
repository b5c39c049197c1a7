#pragma once

// Definitions of the templates of Trackable. Not for inclusion by users: include
// cohort/checkpoint.h.

#include "cohort/checkpoint.h"

namespace cohort {

template <typename Part>
requires requires(const Part& module) {
  { module.named_variables() } -> std::same_as<nn::NamedVariables>;
}
Trackable::Trackable(const Part& module)
    : Trackable([module] { return module.named_variables(); }, nullptr) {}

template <typename Dataset, typename Iterator>
Trackable Trackable::position(const Dataset& dataset, Iterator& iterator) {
  return bytes(
      [&iterator] { return iterator.save(); },
      [dataset, &iterator](const std::string& saved) { iterator = dataset.iterator(saved); });
}

}  // namespace cohort
