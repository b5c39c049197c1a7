#pragma once

#include "base/thread_context.h"
#include "cohort/error.h"

namespace cohort::internal {

// The lines that nodes which this thread adds count as made at, if the scopes below say so.
struct CallSites {
  Site made_at = {};    // see SiteScope
  Site called_at = {};  // see LibraryCode
};
CallSites& call_sites();

// The line that a node of this thread is made at if its op was called at `site`.
inline Site caller_of(Site site) {
  const Site made_at = call_sites().made_at;
  return made_at.line > 0 ? made_at : site;
}

// While a SiteScope exists, nodes that this thread adds count as made at `site`, the line of the
// user's code that called the library. The outermost scope counts.
class [[nodiscard]] SiteScope : ScopedValue<Site> {
 public:
  explicit SiteScope(Site site) : ScopedValue(call_sites().made_at, caller_of(site)) {}
};

// While a UsersCode exists, this thread runs code of the user, whose lines count again.
class [[nodiscard]] UsersCode {
  // In this order: the first value reads what the second one sets.
  ScopedValue<Site> called_at_{call_sites().called_at, caller_of(call_sites().called_at)};
  ScopedValue<Site> made_at_{call_sites().made_at, {}};
};

// While a LibraryCode exists, this thread runs code of the library where a function of the user is
// expected, such as an initializer. Its nodes count as made at the line that called the library.
class [[nodiscard]] LibraryCode : SiteScope {
 public:
  LibraryCode() : SiteScope(call_sites().called_at) {}
};

}  // namespace cohort::internal
