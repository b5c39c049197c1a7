#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::internal {

// What the open guards of a thread say about the nodes that it adds.
struct BuildScopes {
  std::vector<std::string> name_prefixes;  // "" or "scope/", innermost last
  std::vector<std::vector<Tensor>> controls;
  std::vector<Tensor> colocations;
};
BuildScopes& build_scopes();

// The prefix that the innermost name scope gives: "" or "layer/inner/".
std::string name_prefix();

}  // namespace cohort::internal
