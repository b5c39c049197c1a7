#include "base/collective_purpose.h"

#include <cstdlib>
#include <utility>

namespace cohort::internal {
namespace {

constinit ContextSlot<const CollectivePurpose*> innermost_purpose;

Site site_or_outer(Site site, const CollectivePurpose* outer) {
  return site.line == 0 && outer != nullptr ? outer->site() : site;
}

}  // namespace

CollectivePurpose::CollectivePurpose(std::string what, Site site)
    : text_(std::move(what)),
      what_(text_),
      outer_(std::exchange(innermost_purpose.get(), this)),
      site_(site_or_outer(site, outer_)),
      settings_(outer_ != nullptr ? outer_->settings_ : std::string_view()) {}

CollectivePurpose::CollectivePurpose(const char* what, Site site,
                                     std::optional<std::string_view> settings)
    : what_(what),
      outer_(std::exchange(innermost_purpose.get(), this)),
      site_(site_or_outer(site, outer_)),
      settings_(settings.value_or(outer_ != nullptr ? outer_->settings_ : std::string_view())) {}

std::string CollectivePurpose::text() const {
  std::string all(what_);
  if (!settings_.empty()) all.append(" with ").append(settings_);
  return all;
}

CollectivePurpose::~CollectivePurpose() { innermost_purpose.get() = outer_; }

const CollectivePurpose* CollectivePurpose::current() { return innermost_purpose.get(); }

AdoptedPurpose::AdoptedPurpose(const CollectivePurpose* purpose)
    : ContextValue(innermost_purpose, purpose) {}

bool compares_sites() {
  static const bool is_on = [] {
    const char* const value = std::getenv("COHORT_CHECK_LOCKSTEP");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return is_on;
}

}  // namespace cohort::internal
