#include "distribute/variables/variable_sharing.h"

#include <fmt/format.h>

#include <cctype>

#include "base/raise.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "variables/variable_creators.h"

namespace cohort::internal {
namespace {

// Throws InvalidArgument when the replica asks for something else than replica 0 did. What only
// calling the initializer could tell is not compared: the initial value is computed once.
void check_same(size_t replica, const Variable& made, const VariableRequest& request) {
  const VariableOptions& options = request.options;
  const auto* constant = request.initializer.target<ConstantInitializer>();
  const DType dtype = options.dtype.value_or(constant ? constant->value.dtype() : made.dtype());
  const Shape known = constant != nullptr ? constant->value.shape() : made.shape();
  const Shape shape = options.shape.has_rank() ? options.shape : known;
  if (dtype == made.dtype() && shape == made.shape()) return;
  raise(Code::InvalidArgument,
        "[Variable] replica {} makes variable '{}' as {} {}, but replica 0 made it as {} {}; all "
        "replicas must make the same variables",
        replica, made.name(), to_string(dtype), shape.to_string(), to_string(made.dtype()),
        made.shape().to_string());
}

// What tells the variables of a run apart, besides the order in which a replica asks.
std::string key_of(const VariableRequest& request) {
  std::string name = canonical_variable_name(request.options.name);
  const auto* first_call = request.initializer.target<FirstCallInitializer>();
  return first_call == nullptr ? name : fmt::format("{} of layer {}", name, first_call->layer);
}

}  // namespace

std::string canonical_variable_name(std::string name) {
  if (name.empty()) return "Variable";
  std::string canonical;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] == '_' && i + 1 < name.size() &&
                       std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0;
    if (digit && (i + 2 == name.size() || name[i + 2] == '/')) {
      ++i;
    } else {
      canonical += name[i];
    }
  }
  return canonical;
}

SharedVariables::SharedVariables(ReplicaRendezvous& rendezvous, size_t replicas)
    : rendezvous_(rendezvous), asked_(replicas) {}

void SharedVariables::begin() {
  made_.clear();
  for (auto& counts : asked_) counts.clear();
}

Variable SharedVariables::make(size_t replica, const NextCreator& next,
                               const VariableRequest& request) {
  const std::string name = key_of(request);
  return replica == 0 ? make_first(name, next, request) : find(replica, name, request);
}

Variable SharedVariables::make_first(const std::string& name, const NextCreator& next,
                                     const VariableRequest& request) {
  Variable made = next(request);
  {
    const std::lock_guard lock(mutex_);
    made_[name].push_back(made);
  }
  rendezvous_.announce();
  return made;
}

Variable SharedVariables::find(size_t replica, const std::string& name,
                               const VariableRequest& request) {
  const size_t index = asked_[replica][name]++;
  std::optional<Variable> found;
  const auto ready = [&] {
    const std::lock_guard lock(mutex_);
    const auto list = made_.find(name);
    if (list == made_.end() || list->second.size() <= index) return false;
    found = list->second[index];
    return true;
  };
  if (!rendezvous_.await_first(ready)) {
    raise(Code::FailedPrecondition,
          "[Variable] replica {} makes variable number {} named '{}', which replica 0 does not "
          "make; all replicas must make the same variables",
          replica, index + 1, name);
  }
  check_same(replica, *found, request);
  return *found;
}

}  // namespace cohort::internal
