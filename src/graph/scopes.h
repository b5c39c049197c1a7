#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/scope_stack.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// What the open guards of a thread say about the nodes that it adds.
struct BuildScopes {
  ScopeStack<std::string> name_prefixes{"NameScope"};  // "" or "scope/"
  ScopeStack<std::vector<Tensor>> controls{"ControlDependencies"};
  ScopeStack<Tensor> colocations{"Colocation"};
};
BuildScopes& build_scopes();

// The prefix that the innermost name scope gives: "" or "layer/inner/".
std::string name_prefix();

}  // namespace cohort::internal
