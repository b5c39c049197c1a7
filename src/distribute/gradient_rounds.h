#pragma once

#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "distribute/gradient_layout.h"

namespace cohort::internal {

using ReplicaGradients = std::vector<Gradients>;  // of a worker: by replica, then by variable
// The sums of some variables' gradients: `values` has, for each of them, one of every replica.
using GradientAdder =
    std::function<std::vector<Gradient>(const std::vector<std::vector<Gradient>>& values)>;
// Undefined where no replica has one.
std::vector<Gradient> totals_of(const ReplicaGradients& own, const std::vector<size_t>& variables,
                                const GradientAdder& add);

// What the tapes of a worker's replicas have given since the last update: for each list of
// variables, what the first pass of each replica gave.
//
// A pass may be this worker's alone: the chief computes gradients for its log. So a pass decides
// nothing but when packs go. Which ones go follows from what all workers know: between two updates
// every worker reduces the packs of the layout that all expect next, all but the last one, each
// once and in order. The first pass over that layout's variables lets them go, and the update those
// that are left. The packs have a group of their own, because one worker may be earlier than
// another in relation to everything else that they do together. Not thread-safe.
class GradientRounds {
 public:
  // `early` is the group of the packs.
  GradientRounds(Communicator early, size_t replicas, GradientAdder add)
      : early_(std::move(early)), add_(std::move(add)), replicas_(replicas) {}

  // After an update: forgets what the tapes gave. The next one is likely to be of that layout,
  // whose packs go early; null: none do. The same on all workers.
  void begin_round(GradientLayout* expected);
  // A tape of that replica begins.
  void begin(size_t replica, const std::vector<Variable>& sources);
  void ready(size_t replica, size_t index, const Gradient& gradient);

  GradientLayout* expected() const { return expected_; }
  // Whether the first passes of all replicas gave these gradients, and what they gave has gone.
  bool gave(const GradientLayout& layout, const ReplicaGradients& own) const;
  // The order in which they became final in the first replica; the last one first where no pass
  // says.
  std::vector<size_t> order_of(const std::vector<Variable>& variables) const;
  // At an update: lets the packs go that are still to go; what is in them does not matter.
  void start_rest();
  // Waits for those that have gone. Throws what a reduction threw; DeadlineExceeded, which closes
  // the packs' group, when they take longer than that.
  void await(const CollectiveOptions& how);

  // How many packs went before the update.
  int64_t early_packs() const { return early_packs_; }

 private:
  struct Pass {
    VariableList variables;
    Gradients gradients;
    std::vector<size_t> order = {};  // in which they came
  };
  struct Replica {
    std::vector<Pass> passes = {};
    bool is_first = false;     // this pass: the last of `passes`
    bool is_expected = false;  // its packs go
  };

  void start(size_t pack);
  void start_complete();
  void write_totals(size_t pack);
  const Pass* find(size_t replica, const VariableList& variables) const;

  Communicator early_;
  const GradientAdder add_;
  std::vector<Replica> replicas_;
  GradientLayout* expected_ = nullptr;
  std::vector<size_t> missing_;  // by pack, of all replicas together
  size_t next_ = 0;              // the first pack that has not gone
  bool went_empty_ = false;      // some before a pass had filled them
  std::vector<std::future<void>> running_;
  int64_t early_packs_ = 0;
};

}  // namespace cohort::internal
