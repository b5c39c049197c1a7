#pragma once

#include <string>
#include <string_view>

#include "cohort/site.h"

namespace cohort::internal {

// While it lives, what this thread does together with other replicas and workers is for `what`, and
// `site` in the program asked for it. Members compare what a collective is for before they combine
// values: programs that diverge get an error that names both purposes and both sites, never a wrong
// sum. `what` must be the same on all members, so it names nothing that only this one knows.
// Purposes nest: the innermost counts, with the innermost site that is known.
//
//   const CollectivePurpose purpose("apply_gradients", site);
class CollectivePurpose {
 public:
  explicit CollectivePurpose(std::string what, Site site = {});
  // For a literal, which is not copied: an all_reduce of a few numbers takes less than a
  // microsecond.
  explicit CollectivePurpose(const char* what, Site site = {});
  // With settings that must agree too. They hold for the purposes inside this one as well, and must
  // outlive it.
  CollectivePurpose(const char* what, Site site, std::string_view settings);
  ~CollectivePurpose();
  CollectivePurpose(const CollectivePurpose&) = delete;
  CollectivePurpose& operator=(const CollectivePurpose&) = delete;

  std::string_view what() const { return what_; }
  // "apply_gradients with learning rate 0.1": what members compare.
  std::string text() const;
  Site site() const { return site_; }
  // The innermost of this thread; null outside of all.
  static const CollectivePurpose* current();

 private:
  const std::string text_;  // empty for a literal
  const std::string_view what_;
  const CollectivePurpose* const outer_;
  const Site site_;
  const std::string_view settings_;
};

// While it lives, this thread acts for one that waits, and has that one's purpose; null: none.
class AdoptedPurpose {
 public:
  explicit AdoptedPurpose(const CollectivePurpose* purpose);
  ~AdoptedPurpose();
  AdoptedPurpose(const AdoptedPurpose&) = delete;
  AdoptedPurpose& operator=(const AdoptedPurpose&) = delete;

 private:
  const CollectivePurpose* const before_;
};

// Whether this process compares the sites of calls too. COHORT_CHECK_LOCKSTEP=0 switches it off,
// for programs that make one call from several places. A call without a site matches every site, so
// members may have different settings.
bool compares_sites();

}  // namespace cohort::internal
