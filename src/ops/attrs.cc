#include "ops/attrs.h"

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {

bool Attrs::has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.first == name; });
}

const AttrValue& Attrs::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return entry.second;
  }
  raise(Code::Internal, "[Attrs] no attribute '{}'", name);
}

}  // namespace cohort::internal
