#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// A list of variables, which it does not keep alive. Another list is the same only if it has the
// same variables: one that is made where another one was is not.
class VariableList {
 public:
  VariableList() = default;
  explicit VariableList(const std::vector<Variable>& variables);

  size_t size() const { return all_.size(); }
  bool operator==(const VariableList& other) const;
  // Whether a variable has ended. Then no call can use this list again.
  bool is_gone() const;

 private:
  std::vector<std::weak_ptr<VariableImpl>> all_;
};

// What workers have agreed on for the gradients of a list of variables: which of them have rows,
// and where in packs the others lie.
struct GradientLayout {
  struct Place {
    size_t pack;
    size_t index;
  };
  // What one worker knows beforehand, for each variable. The order is that in which gradients
  // become final: the first worker's counts.
  struct Proposal {
    std::vector<bool> has_rows = {};
    std::vector<size_t> order = {};
  };

  // The group in which workers agree and reduce the last pack, and the one for the packs before.
  struct Groups {
    Communicator workers;
    Communicator early;
  };

  // A call that all workers make. The packs are about `bytes_per_pack` large.
  GradientLayout(Groups& groups, const std::vector<Variable>& of, const Proposal& own,
                 int64_t bytes_per_pack, const CollectiveOptions& how);

  // An undefined one counts as zeros.
  void write(size_t variable, const Gradient& gradient);
  // The variables whose gradients lie in that pack.
  std::vector<size_t> members(size_t pack) const;
  // Whether all gradients are float32 or float64, in memory that the workers share. The same on all
  // workers.
  bool is_within_reach() const;
  // What a worker has written, where it is within reach.
  const Gradients& of_worker(int rank);
  std::span<const float> counts_of(int rank) const;

  const VariableList variables;
  std::vector<bool> has_rows = {};
  std::vector<Place> places = {};  // of those without rows
  std::vector<size_t> sizes = {};  // how many gradients each pack has
  // The last one also has, for each variable, how many workers have a gradient; then how many
  // apply something else than their tapes gave; then how long each worker was busy; then
  // how much of that each spent getting its input.
  std::vector<Pack> packs = {};
  Place counts = {};
  // What all workers know alike of the updates so far: the number of this layout among all that
  // were made, whether each worker applied what its tapes gave the last time, and the layout of the
  // update that came next, which is likely to come again if it came twice.
  uint64_t id = 0;
  bool is_announced = false;
  uint64_t successor = 0;
  bool is_successor_likely = true;
  // Another one like it, for gradients that workers read from each other: one is written while
  // others may still read the other one.
  std::unique_ptr<GradientLayout> twin = {};
  bool is_twins_turn = false;

 private:
  // FailedPrecondition on all workers when they do not have the same variables in the same order.
  static void agree_on_variables(Communicator& workers, const std::vector<Variable>& of,
                                 const CollectiveOptions& how);
  void agree_on_rows(Communicator& workers, const Proposal& own, const CollectiveOptions& how);
  void make_packs(Groups& groups, const std::vector<Variable>& of, const std::vector<size_t>& order,
                  int64_t bytes_per_pack, const CollectiveOptions& how);

  std::vector<Gradients> of_workers_;  // views, by rank
};

}  // namespace cohort::internal
