#pragma once

#include "data/node.h"

namespace cohort::data::internal {

// What an Iterator refers to: a walk in this process, or one that a strategy makes up of several.
class IteratorBase {
 public:
  virtual ~IteratorBase() = default;
  virtual std::optional<Element> next() = 0;
  virtual std::string save() = 0;
};

}  // namespace cohort::data::internal
