#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_context.h"
#include "cohort/site.h"
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
  Site made_at = {};  // see SiteScope

  void clear() {
    name_prefixes.clear();
    controls.clear();
    colocations.clear();
    containers.clear();
    made_at = {};
  }
};
BuildScopes& build_scopes();
// The nodes that new nodes run after, by the open guards.
std::vector<Tensor> open_controls();

// The prefix that the innermost name scope gives: "" or "layer/inner/".
std::string name_prefix();

// The name of the default container of a task, whatever its job.
inline constexpr char kDefaultContainer[] = "localhost";
// The container of state that is added now.
std::string current_container();

// While it lives, nodes that this thread adds go where `tensor` goes, whatever outer guards say.
class [[nodiscard]] SoleColocation {
 public:
  explicit SoleColocation(const Tensor& tensor)
      : ticket_(build_scopes().colocations.open({tensor, true})) {}
  ~SoleColocation() { build_scopes().colocations.leave(ticket_); }
  SoleColocation(const SoleColocation&) = delete;
  SoleColocation& operator=(const SoleColocation&) = delete;

 private:
  uint64_t ticket_;
};

// While it lives, nodes that this thread adds wait for nothing, whatever outer guards say. The
// nodes that initialise state run before everything that the guards name.
class [[nodiscard]] NoControlDependencies {
 public:
  NoControlDependencies() : ticket_(build_scopes().controls.open({{}, true})) {}
  ~NoControlDependencies() { build_scopes().controls.leave(ticket_); }
  NoControlDependencies(const NoControlDependencies&) = delete;
  NoControlDependencies& operator=(const NoControlDependencies&) = delete;

 private:
  uint64_t ticket_;
};

// While it lives, nodes that this thread adds count as made at `site`, the line of the user's code
// that called the library. The outermost scope counts.
class [[nodiscard]] SiteScope {
 public:
  explicit SiteScope(Site site) : before_(build_scopes().made_at) {
    if (before_.line == 0) build_scopes().made_at = site;
  }
  ~SiteScope() { build_scopes().made_at = before_; }
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  const Site before_;
};

// While it lives, this thread runs code of the user, whose lines count again.
class [[nodiscard]] UsersCode {
 public:
  UsersCode() : before_(std::exchange(build_scopes().made_at, Site{})) {}
  ~UsersCode() { build_scopes().made_at = before_; }
  UsersCode(const UsersCode&) = delete;
  UsersCode& operator=(const UsersCode&) = delete;

 private:
  const Site before_;
};

}  // namespace cohort::internal
