#include "distribute/replica_call.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "distribute/reduce_tensors.h"

namespace cohort::internal {
namespace {

constexpr size_t kMostListed = 4;  // longer lists help nobody

std::string listed(std::span<const Gradient> values) {
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kMostListed); ++i) {
    text += ", " + describe(values[i]);
  }
  if (values.size() > kMostListed) {
    text += fmt::format(" and {} more", values.size() - kMostListed);
  }
  return text;
}

}  // namespace

MergePoint::Call ReplicaCall::at_meeting() {
  MergePoint::Call call{what, 0, this};
  if (options.timeout_seconds)
    call.timeout = std::chrono::duration<double>(*options.timeout_seconds);
  return call;
}

std::string ReplicaCall::to_string() const {
  const std::string how =
      what == "all_reduce" ? cohort::to_string(op) : fmt::format("axis {}", axis);
  const std::string reason_given = reason() != what ? fmt::format(" for {}", reason()) : "";
  return fmt::format("{}({}{}){}", what, how, listed(values), reason_given);
}

std::vector<Gradient> ReplicaCalls::at(size_t position) const {
  std::vector<Gradient> values;
  for (size_t replica = 0; replica < size(); ++replica) {
    values.push_back((*this)[replica].values[position]);
  }
  return values;
}

void ReplicaCalls::check_same() const {
  const ReplicaCall& first = (*this)[0];
  for (size_t replica = 1; replica < size(); ++replica) {
    const ReplicaCall& other = (*this)[replica];
    if (first.op == other.op && first.axis == other.axis &&
        first.values.size() == other.values.size() && first.reason() == other.reason()) {
      continue;
    }
    raise(Code::FailedPrecondition,
          "[{}] the replicas do not ask for the same: replica 0 calls {}, replica {} calls {}; all "
          "must make the same calls in the same order",
          first.what, first.to_string(), replica, other.to_string());
  }
}

}  // namespace cohort::internal
