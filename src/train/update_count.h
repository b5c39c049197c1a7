#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "train/update_path.h"

namespace cohort::internal {

// A new variable that counts updates, "iterations" after the prefix.
Variable make_update_count(const std::string& prefix = "");
// Moves the count to where the variables are that the updates are of.
void settle_update_count(Variable& count, const UpdatePath& route, const Variable& neighbour);

// Throws InvalidArgument unless one of the gradients is defined.
void require_some_gradient(const Gradients& gradients);

// Variables that an update left as they are. Thread-safe.
class IdleVariables {
 public:
  // Warns, the first time.
  void name_once(const Variable& variable);

 private:
  std::mutex mutex_;
  std::set<std::string> named_;  // guarded by mutex_
};

}  // namespace cohort::internal
