#pragma once

#include <string>
#include <vector>

#include "base/site_scope.h"
#include "base/thread_context.h"
#include "cohort/tensor.h"

namespace cohort::internal {

// The nodes that a new node must be placed with.
struct ColocationAnchor {
  Tensor tensor;
  bool alone = false;  // outer anchors do not count
};

// The nodes that a new node must run after.
struct ControlEntry {
  std::vector<Tensor> before;
  bool alone = false;  // outer entries do not count
};

// The settings that the open guards of a thread give to the nodes that it adds.
struct BuildScopes {
  ScopeStack<std::string> name_prefixes{"NameScope"};  // "" or "scope/"
  ScopeStack<ControlEntry> controls{"ControlDependencies"};
  ScopeStack<ColocationAnchor> colocations{"Colocation"};
  ScopeStack<std::string> containers{"Container"};

  void clear() {
    name_prefixes.clear();
    controls.clear();
    colocations.clear();
    containers.clear();
  }
};
BuildScopes& build_scopes();
// The nodes that new nodes run after, by the open guards.
std::vector<Tensor> open_controls();

// The prefix that the innermost name scope gives: "" or "layer/inner/".
std::string name_prefix();

// The name of the default container of a task, whatever its job.
inline constexpr char kDefaultContainer[] = "localhost";
// The container for state that is added now.
std::string current_container();

// While a SoleColocation exists, nodes that this thread adds are placed with `tensor`, and outer
// guards do not count.
class [[nodiscard]] SoleColocation : StackedScope<ColocationAnchor> {
 public:
  explicit SoleColocation(const Tensor& tensor)
      : StackedScope(build_scopes().colocations, {tensor, true}) {}
};

// While a NoControlDependencies exists, nodes that this thread adds wait for nothing, and outer
// guards do not count. Nodes that initialise state run before all nodes that the guards name.
class [[nodiscard]] NoControlDependencies : StackedScope<ControlEntry> {
 public:
  NoControlDependencies() : StackedScope(build_scopes().controls, {{}, true}) {}
};

}  // namespace cohort::internal
