#include "base/purpose.h"

#include <cstdlib>
#include <string_view>
#include <utility>

namespace cohort::internal {
namespace {

thread_local const CollectivePurpose* innermost = nullptr;

}  // namespace

CollectivePurpose::CollectivePurpose(std::string what, Site site)
    : what_(std::move(what)),
      outer_(innermost),
      site_(site.line == 0 && outer_ != nullptr ? outer_->site() : site) {
  innermost = this;
}

CollectivePurpose::~CollectivePurpose() { innermost = outer_; }

const CollectivePurpose* CollectivePurpose::current() { return innermost; }

AdoptedPurpose::AdoptedPurpose(const CollectivePurpose* purpose) : before_(innermost) {
  innermost = purpose;
}

AdoptedPurpose::~AdoptedPurpose() { innermost = before_; }

bool compares_sites() {
  static const bool is_on = [] {
    const char* const value = std::getenv("COHORT_CHECK_LOCKSTEP");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return is_on;
}

}  // namespace cohort::internal
