#pragma once

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// A list of variables, which it does not keep alive. Two lists are equal only if they have the same
// variables: a variable that is made at the address of an ended one is another variable.
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

// What the workers have agreed on for the gradients of a list of variables: which gradients are
// rows, and where in the packs the dense gradients lie.
struct GradientLayout {
  struct Place {
    size_t pack;
    size_t index;
  };
  // What one worker proposes: for each variable whether its gradient is rows, and the order in
  // which the gradients become final. A gradient is rows if it is rows on any worker. All workers
  // use the order of the first worker.
  struct Proposal {
    std::vector<bool> has_rows = {};
    std::vector<size_t> order = {};
  };

  // `workers` is the group in which the workers agree and reduce the last pack. `early` is the
  // group for the packs before the last one.
  struct Groups {
    Communicator workers;
    Communicator early;
  };

  // All workers construct it together. Each pack has about `bytes_per_pack` bytes.
  GradientLayout(Groups& groups, const std::vector<Variable>& of, const Proposal& own,
                 int64_t bytes_per_pack, const CollectiveOptions& how);

  // Writes the gradient into its pack; an undefined gradient counts as zeros.
  void write(size_t variable, const Gradient& gradient);
  // The indices of the variables whose gradients lie in that pack.
  std::vector<size_t> members(size_t pack) const;

  const VariableList variables;
  std::vector<bool> has_rows = {};
  std::vector<Place> places = {};  // of the gradients that are not rows
  std::vector<size_t> sizes = {};  // how many gradients each pack has
  // The last pack ends with counts, at `counts`. With V variables and W workers there are
  // V + 1 + 2 W counts, each the sum over the workers:
  //   [i]              how many workers have a gradient of variable i
  //   [V]              how many workers apply other gradients than their tapes computed
  //   [V + 1 + r]      how many seconds worker r was busy
  //   [V + 1 + W + r]  how many of these seconds worker r spent on its input
  std::vector<Pack> packs = {};
  Place counts = {};
  // What all workers know alike of the updates so far. `id` is the number of this layout among all
  // layouts. `is_announced` says whether, at the last update, each worker applied the gradients
  // that its tapes had computed. `successor` is the layout of the update that came next, and
  // `is_successor_likely` says whether the same layout came next twice. At first a layout is its
  // own successor.
  uint64_t id = 0;
  bool is_announced = false;
  uint64_t successor = 0;
  bool is_successor_likely = true;

 private:
  void make_packs(Groups& groups, const std::vector<Variable>& of, const std::vector<size_t>& order,
                  int64_t bytes_per_pack, const CollectiveOptions& how);
};

using ReplicaGradients = std::vector<Gradients>;  // of a worker: by replica, then by variable
// Adds up the gradients of some variables. `values` has, for each variable, the gradients of all
// replicas.
using GradientAdder =
    std::function<std::vector<Gradient>(const std::vector<std::vector<Gradient>>& values)>;
// The sums over the replicas for these variables, undefined where no replica has a gradient.
std::vector<Gradient> totals_of(const ReplicaGradients& own, const std::vector<size_t>& variables,
                                const GradientAdder& add);

// Starts the reduction of packs while the backward passes of this worker go on. For each list of
// variables it keeps the gradients that the first backward pass of each replica has computed since
// the last update.
//
// A worker may make a pass that the other workers do not make: the chief computes gradients for its
// log. So a pass decides only when packs are started. Which packs are started follows from what all
// workers know: between two updates every worker reduces the packs of the layout that all expect
// next, except the last pack, each once and in order. The first pass over the variables of that
// layout starts the packs that it has filled, and the update starts the rest. The packs have a
// group of their own, because their order relative to other calls differs between workers. Not
// thread-safe.
class GradientRounds {
 public:
  // `early` is the group of the packs.
  GradientRounds(Communicator early, size_t replicas, GradientAdder add)
      : early_(std::move(early)), add_(std::move(add)), replicas_(replicas) {}

  // After an update: forgets the gradients of all passes. `expected` is the layout that the next
  // update is likely to have: its packs are started early. Null: no packs are. All workers give the
  // same layout.
  void begin_round(GradientLayout* expected);
  // A tape of that replica begins a pass over these variables.
  void begin(size_t replica, const std::vector<Variable>& sources);
  // The gradient of variable `index` is final in the pass of that replica.
  void ready(size_t replica, size_t index, const Gradient& gradient);

  GradientLayout* expected() const { return expected_; }
  // Whether the first passes of all replicas computed the gradients `own`, and no pack of `layout`
  // was started before a pass had filled it.
  bool gave(const GradientLayout& layout, const ReplicaGradients& own) const;
  // The order in which the gradients became final in the first replica. Without a pass over these
  // variables it is from the last variable to the first.
  std::vector<size_t> order_of(const std::vector<Variable>& variables) const;
  // At an update: starts the packs that are not started yet, whatever they contain.
  void start_rest();
  // Waits for the packs that were started. Rethrows the first error of a reduction. When the packs
  // take longer than `how` allows, it closes their group and throws DeadlineExceeded.
  void await(const CollectiveOptions& how);

  // How many packs were started before their update.
  int64_t early_packs() const { return early_packs_; }

 private:
  struct Pass {
    VariableList variables;
    Gradients gradients;
    std::vector<size_t> order = {};  // in which they became final
  };
  struct Replica {
    std::vector<Pass> passes = {};
    bool is_first = false;     // whether this pass is the last of `passes`
    bool is_expected = false;  // whether this pass fills the packs of expected_
  };

  void start(size_t pack);
  void start_complete();
  void write_totals(size_t pack);
  const Pass* find(size_t replica, const VariableList& variables) const;

  Communicator early_;
  const GradientAdder add_;
  std::vector<Replica> replicas_;
  GradientLayout* expected_ = nullptr;
  std::vector<size_t> missing_;  // gradients, by pack, of all replicas together
  size_t next_ = 0;              // the first pack that is not started
  bool went_empty_ = false;      // whether a pack was started before a pass had filled it
  std::vector<std::future<void>> running_;
  int64_t early_packs_ = 0;
};

}  // namespace cohort::internal
