#include "runtime/outcome.h"

namespace cohort::internal {
namespace {

constexpr size_t kLongestMessage = 4096;

// What cancels a run from outside reaches every part, with the node that it met behind it.
bool is_same_cause(const Status& a, const Status& b) {
  return a.message.starts_with(b.message) || b.message.starts_with(a.message);
}

}  // namespace

Status root_cause(const std::vector<Status>& outcomes) {
  Status told;
  for (const Status& status : outcomes) {
    if (status.ok() || (!told.ok() && !told.derived && status.derived)) continue;
    if (told.ok() || (told.derived && !status.derived)) {
      told = status;
    } else if (!is_same_cause(status, told) && told.message.size() < kLongestMessage) {
      told.message += "; and: " + status.message;
    }
  }
  if (told.message.size() > kLongestMessage) told.message.resize(kLongestMessage);
  return told;
}

}  // namespace cohort::internal
