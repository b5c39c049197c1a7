#include "distribute/contexts/replica_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/raise.h"
#include "distribute/reduce/reduce_tensors.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/variable_cell.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxListed = 4;  // a longer list is hard to read

std::string listed(std::span<const Gradient> values) {
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kMaxListed); ++i) {
    text += ", " + describe(values[i]);
  }
  if (values.size() > kMaxListed) {
    text += fmt::format(" and {} more", values.size() - kMaxListed);
  }
  return text;
}

// "train.cc:12"
std::string base_name(Site site) {
  const std::string_view file = site.file;
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), site.line);
}

// A call without a site matches every site.
bool same_site(Site a, Site b) {
  if (a.line == 0 || b.line == 0) return true;
  return a.line == b.line && std::string_view(a.file) == b.file;
}

constinit ContextSlot<const std::vector<Variable>*> updated_variables;

}  // namespace

UpdatedVariables::UpdatedVariables(const std::vector<Variable>& variables)
    : ContextValue(updated_variables, &variables) {}
const std::vector<Variable>* UpdatedVariables::current() { return updated_variables.get(); }

bool are_same(const std::vector<Variable>& one, const std::vector<Variable>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const Variable& a, const Variable& b) {
                      return VariableAccess::impl(a) == VariableAccess::impl(b);
                    });
}

void check_same_variables(const std::vector<Variable>& first, const std::vector<Variable>& own,
                          size_t replica) {
  if (are_same(first, own)) return;
  const auto label = [](const std::vector<Variable>& list, size_t place) {
    return place < list.size() ? label_of(list[place]) : std::string("missing");
  };
  size_t place = 0;
  while (label(first, place) == label(own, place) && place < first.size()) ++place;
  raise(Code::FailedPrecondition,
        "[apply_gradients] the replicas update different variables: number {} is {} in replica 0, "
        "{} in replica {}; give all the same list in the same order",
        place, label(first, place), label(own, place), replica);
}

ReplicaRendezvous::Call ReplicaCall::as_call() {
  ReplicaRendezvous::Call call{what, 0, this};
  if (options.timeout_seconds)
    call.timeout = std::chrono::duration<double>(*options.timeout_seconds);
  return call;
}

std::string ReplicaCall::to_string() const {
  const std::string how =
      what == "all_reduce" ? cohort::to_string(op) : fmt::format("axis {}", axis);
  const std::string reason_given = reason() != what ? fmt::format(" for {}", reason()) : "";
  const std::string place = site().line != 0 ? " at " + base_name(site()) : "";
  return fmt::format("{}({}{}){}{}", what, how, listed(values), reason_given, place);
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
    if (first.variables != nullptr && other.variables != nullptr) {
      check_same_variables(*first.variables, *other.variables, replica);
    }
    if (first.op == other.op && first.axis == other.axis &&
        first.values.size() == other.values.size() && first.reason() == other.reason() &&
        same_site(first.site(), other.site())) {
      continue;
    }
    raise(Code::FailedPrecondition,
          "[{}] the replicas do not ask for the same: replica 0 calls {}, replica {} calls {}; all "
          "must make the same calls in the same order",
          first.what, first.to_string(), replica, other.to_string());
  }
}

}  // namespace cohort::internal
