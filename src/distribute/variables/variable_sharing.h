#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/variable.h"

namespace cohort::internal {

class ReplicaRendezvous;

// A variable's name without what tells replicas apart: each "_" with one digit directly before a
// "/" or at the end goes. An empty name becomes "Variable".
std::string canonical_variable_name(std::string name);

// The variables that the replicas of one run make. Replica 0 makes them; the others get, for the
// k-th variable of a name that they ask for, the k-th that replica 0 made. The first call of a
// layer counts for itself (FirstCallInitializer). Thread-safe.
class SharedVariables {
 public:
  SharedVariables(ReplicaRendezvous& rendezvous, size_t replicas);

  // Forgets what was made; before a run.
  void begin();
  Variable make(size_t replica, const NextCreator& next, const VariableRequest& request);

 private:
  Variable make_first(const std::string& name, const NextCreator& next,
                      const VariableRequest& request);
  Variable find(size_t replica, const std::string& name, const VariableRequest& request);

  ReplicaRendezvous& rendezvous_;
  std::mutex mutex_;
  std::map<std::string, std::vector<Variable>> made_;  // guarded by mutex_
  std::vector<std::map<std::string, size_t>> asked_;   // by replica; each uses its own
};

}  // namespace cohort::internal
