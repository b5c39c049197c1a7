#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/thread_context.h"
#include "cohort/error.h"

namespace cohort::internal {

// Says what the collectives of this thread are for, and which line of the program asked for them,
// for as long as the object lives. Members compare purposes before they combine values: programs
// that diverge get an error that names both purposes and both sites, never a wrong sum. `what` must
// be the same on all members. Purposes nest: the innermost counts, with the innermost known site.
//
//   const CollectivePurpose purpose("apply_gradients", site);
class CollectivePurpose {
 public:
  explicit CollectivePurpose(std::string what, Site site = {});
  // Does not copy the literal, because an all_reduce of a few numbers takes less than a
  // microsecond. The settings must agree as well. They also hold for the purposes inside this one,
  // and must outlive it.
  explicit CollectivePurpose(const char* what, Site site = {},
                             std::optional<std::string_view> settings = std::nullopt);
  ~CollectivePurpose();
  CollectivePurpose(const CollectivePurpose&) = delete;
  CollectivePurpose& operator=(const CollectivePurpose&) = delete;

  std::string_view what() const { return what_; }
  // "apply_gradients with learning rate 0.1": what members compare.
  std::string text() const;
  Site site() const { return site_; }
  // The innermost purpose of this thread, or null.
  static const CollectivePurpose* current();

 private:
  const std::string text_;  // empty for a literal
  const std::string_view what_;
  const CollectivePurpose* const outer_;
  const Site site_;
  const std::string_view settings_;
};

// Gives this thread the purpose of another thread, for which it acts; null: none.
class AdoptedPurpose : ContextValue<const CollectivePurpose*> {
 public:
  explicit AdoptedPurpose(const CollectivePurpose* purpose);
};

// Whether this process compares the sites of calls as well. COHORT_CHECK_LOCKSTEP=0 switches the
// comparison off, for programs that make one call from several places. A call without a site
// matches every site, so members may have different settings.
bool compares_sites();

}  // namespace cohort::internal
