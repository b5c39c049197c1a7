#pragma once

#include <deque>
#include <functional>
#include <future>
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

// What the tapes of a worker's replicas have given since the last update: the n-th tapes of all
// replicas are one round. Where a round has a layout that is early, a pack is written and reduced
// as soon as all replicas have given the gradients in it; all workers reduce them in the same
// order. Not thread-safe.
class GradientRounds {
 public:
  GradientRounds(Communicator workers, size_t replicas, GradientAdder add, CollectiveOptions how)
      : workers_(std::move(workers)),
        replicas_(replicas),
        add_(std::move(add)),
        how_(how),
        begun_(replicas) {}

  // A tape of that replica begins; `layout` is null unless packs go early.
  void begin(size_t replica, const std::vector<VariableImpl*>& variables, GradientLayout* layout);
  void ready(size_t replica, size_t index, const Gradient& gradient);

  // Whether the last round gave these gradients, of all replicas.
  bool gave(const GradientLayout& layout, const ReplicaGradients& own) const;
  // The order in which they became final in the first replica; the last one first where no round
  // says.
  std::vector<size_t> order_of(const std::vector<VariableImpl*>& variables) const;
  // Lets the packs before the last go that the last round has not let go; what is in them does not
  // matter.
  void start_rest(GradientLayout& layout);
  // Waits for those that have gone. Throws what a reduction threw.
  void await_all();
  // Forgets all rounds, of which nothing runs.
  void clear();

  // How many packs went before the update.
  int64_t early_packs() const { return early_packs_; }

 private:
  struct Round {
    std::vector<VariableImpl*> variables = {};
    GradientLayout* layout = nullptr;
    ReplicaGradients gradients = {};
    std::vector<std::vector<size_t>> order = {};  // by replica: in which they came
    std::vector<size_t> missing = {};             // by pack, of all replicas together
    size_t next = 0;                              // the first pack that has not gone
    std::vector<std::future<void>> running = {};
  };

  void forget_passed();
  void start(Round& round);
  void write_totals(Round& round);
  static void await(Round& round);
  void await_before(const Round& round);

  Communicator workers_;
  const size_t replicas_;
  const GradientAdder add_;
  const CollectiveOptions how_;
  std::deque<Round> rounds_;
  std::vector<size_t> begun_;  // by replica: how many of the rounds
  int64_t early_packs_ = 0;
};

}  // namespace cohort::internal
