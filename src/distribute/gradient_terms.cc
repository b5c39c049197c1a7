#include "distribute/gradient_terms.h"

#include <algorithm>

#include "distribute/merge_point.h"
#include "distribute/replica_call.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxTerms = 2;

// Whether both are nothing, or numbers that can be added to each other one by one.
bool can_be_added(const Gradient& one, const Gradient& other) {
  if (!one.defined() || !other.defined()) return one.defined() == other.defined();
  if (one.is_sparse() || other.is_sparse()) return false;
  const Tensor a = one.dense();
  const Tensor b = other.dense();
  return a.dtype() == b.dtype() && (a.dtype() == kFloat32 || a.dtype() == kFloat64) &&
         a.shape() == b.shape();
}

// What a replica brings.
struct Own {
  const Gradients& gradients;
  const std::vector<Variable>& variables;
};
const Own& own_of(void* brought) { return *static_cast<const Own*>(brought); }
const Gradients& gradients_of(void* brought) { return own_of(brought).gradients; }

void check_variables(std::span<void* const> brought) {
  for (size_t replica = 1; replica < brought.size(); ++replica) {
    check_same_variables(own_of(brought[0]).variables, own_of(brought[replica]).variables, replica);
  }
}

bool all_fit(std::span<void* const> brought) {
  const Gradients& first = gradients_of(brought[0]);
  return std::all_of(brought.begin(), brought.end(), [&](void* each) {
    const Gradients& other = gradients_of(each);
    return std::equal(first.begin(), first.end(), other.begin(), other.end(), can_be_added);
  });
}

}  // namespace

std::vector<Gradients> gradient_terms(ReplicaContext& replica, const Gradients& gradients,
                                      const std::vector<Variable>& variables) {
  MergePoint* meeting = replica.meeting();
  if (meeting == nullptr || meeting->size() > kMaxTerms) return {};
  std::vector<Gradients> terms;
  Own own{gradients, variables};
  const auto take = [&](std::span<void* const> brought) {
    check_variables(brought);
    if (!all_fit(brought)) return;
    for (void* each : brought) terms.push_back(gradients_of(each));
  };
  meeting->meet(replica.local_replica(), {"apply_gradients", 0, &own}, nullptr, std::ref(take));
  return terms;
}

void end_of_terms(ReplicaContext& replica) {
  replica.meeting()->meet(replica.local_replica(), {"apply_gradients", 1, nullptr}, nullptr,
                          nullptr);
}

}  // namespace cohort::internal
