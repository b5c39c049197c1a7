#pragma once

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "cohort/collective.h"
#include "cohort/internal/gradient_listener.h"
#include "distribute/reduce/worker_collectives.h"
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
                 int64_t bytes_per_pack, const CommunicationOptions& how);

  // Writes the gradient into its pack; an undefined gradient counts as zeros.
  void write(size_t variable, const Gradient& gradient);
  // The indices of the variables whose gradients lie in that pack.
  std::vector<size_t> members(size_t pack) const;

  const VariableList variables;
  std::vector<bool> has_rows = {};
  std::vector<Place> places = {};  // of the gradients that are not rows
  std::vector<size_t> sizes = {};  // how many gradients each pack has
  // The last pack ends with counts, at `counts`. With V variables and W workers there are
  // V + 1 + 3 W counts, each the sum over the workers:
  //   [i]              how many workers have a gradient of variable i
  //   [V]              how many workers apply other gradients than their tapes computed
  //   [V + 1 + r]      how many seconds worker r was busy
  //   [V + 1 + W + r]  how many of these seconds worker r spent on its input
  //   [V + 1 + 2 W + r]  how many of these seconds worker r wrote checkpoints
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
                  int64_t bytes_per_pack, const CommunicationOptions& how);
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
  void await(const CommunicationOptions& how);

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

// What a worker does by itself between two calls with the other workers, in seconds.
struct BusyTimes {
  std::vector<float> total = {};   // by worker
  std::vector<float> input = {};   // of that, getting elements of datasets
  std::vector<float> saving = {};  // of that, writing checkpoints
};

// Finds the worker that all others wait for.
class SlowWorkerWatch {
 public:
  static constexpr int64_t kSteps = 20;      // that one finding is about
  static constexpr double kSlower = 1.2;     // how many times as long as the others it takes
  static constexpr double kLeastGap = 2e-3;  // seconds that the others wait; less is not logged
  // Seconds that its steps take; shorter steps are not logged. A program whose steps take a few
  // milliseconds is a test or an example, in which printing a line makes a worker slow.
  static constexpr double kLeastStep = 10e-3;

  struct Finding {
    size_t worker;
    double seconds;         // that its steps take, on average
    double input_seconds;   // of that, getting elements of datasets
    double saving_seconds;  // of that, writing checkpoints
    double others_seconds;  // that the steps of the others take

    double compute_seconds() const {
      return std::max(0.0, seconds - input_seconds - saving_seconds);
    }
  };

  // Adds one step. Returns a finding if a worker was slow in the last steps. It looks after kSteps
  // steps, then after twice as many, and so on; once no worker is slow, after kSteps again.
  std::optional<Finding> add(const BusyTimes& busy);

 private:
  std::vector<double> sums_;
  std::vector<double> input_sums_;
  std::vector<double> saving_sums_;
  int64_t steps_ = 0;
  int64_t next_ = kSteps;
};

// The sums over the workers of the gradients of variables. Dense gradients are written into packs,
// memory that the workers of one machine share, and are reduced there; the rows of sparse gradients
// are gathered. For each list of variables the workers agree once which gradients are rows. After
// that, a worker without a gradient, or with a gradient in the other form, does not disagree. Lists
// are told apart by their variables, which all workers make alike: either all workers know a list
// or none does. Thread-safe.
//
// With `overlap` it listens to the tapes of the worker's replicas. Packs are reduced while the
// backward pass goes on, as soon as their gradients are final in all replicas, once all workers
// have seen that an update of the same variables applied the gradients that the tapes had computed.
// The last pack is reduced when the gradients are applied. It also counts the workers that apply
// other gradients; if there are any, all workers reduce the packs again. GradientRounds says which
// packs are started early.
class WorkerGradients {
 public:
  struct Options {
    bool overlap = false;
    CommunicationOptions communication = {};
    size_t replicas = 1;     // of this worker
    GradientAdder add = {};  // where there are several
  };
  // `group_wait` counts how long this worker is in other calls that the workers make together. All
  // workers construct it together.
  WorkerGradients(Communicator workers, Options options,
                  std::shared_ptr<const GroupWaitClock> group_wait);
  ~WorkerGradients();

  // One sum for each variable, undefined where no worker has a gradient. Dense sums lie in the
  // packs and are valid until the next call. All workers call it, once for all their replicas.
  std::vector<Gradient> sum(const ReplicaGradients& own, const std::vector<Variable>& variables);
  bool overlaps() const { return options_.overlap; }
  // Listens to the tapes of a replica.
  GradientListener& listener(size_t replica) { return listeners_[replica]; }

  // How many packs were reduced before their gradients were applied.
  int64_t early_packs() const { return rounds_.early_packs(); }
  // The number of lists of variables that have packs.
  size_t num_layouts() const { return layouts_.size(); }

 private:
  class Listener final : public GradientListener {
   public:
    Listener(WorkerGradients& all, size_t replica) : all_(all), replica_(replica) {}
    void begin(const std::vector<Variable>& sources) override {
      const std::lock_guard one_at_a_time(all_.turn_);
      all_.rounds_.begin(replica_, sources);
    }
    void ready(size_t index, const Gradient& gradient) override {
      const std::lock_guard one_at_a_time(all_.turn_);
      all_.rounds_.ready(replica_, index, gradient);
    }

   private:
    WorkerGradients& all_;
    const size_t replica_;
  };

  // Seconds since the last call, without the time in calls that the workers make together.
  struct OwnTimes {
    float busy = 0;
    float input = 0;   // a part of busy
    float saving = 0;  // another part of busy
  };

  GradientLayout& layout_for(const ReplicaGradients& own, const std::vector<Variable>& variables);
  GradientLayout* numbered_layout(uint64_t number);
  void forget_gone();
  // The layout whose packs are reduced before the next update; null if no packs are.
  GradientLayout* expect_after(GradientLayout& layout);
  std::unique_ptr<GradientLayout> make_layout(const ReplicaGradients& own,
                                              const std::vector<Variable>& variables);
  void write(GradientLayout& layout, size_t pack, const ReplicaGradients& own);
  // Writes the counts of this worker into the last pack. `as_announced`: whether the gradients are
  // those that the tapes computed.
  void write_counts(GradientLayout& layout, const ReplicaGradients& own, bool as_announced,
                    OwnTimes times);
  // Writes the packs before the last one, and starts to reduce them.
  using Reductions = std::vector<std::future<void>>;
  Reductions start_first_packs(GradientLayout& layout, const ReplicaGradients& own);
  Gradient sum_rows(const ReplicaGradients& own, const Variable& variable, size_t index);
  OwnTimes own_times() const;
  void end_call(GroupWaitClock::Clock::time_point began);
  // `times`: how long each worker was busy, then how much of that time was input, then how much of
  // that time it wrote checkpoints.
  void look_for_slow_worker(std::span<const float> times);

  Communicator workers_;
  const Options options_;
  const CommunicationOptions how_;
  const std::shared_ptr<const GroupWaitClock> group_wait_;
  std::vector<Listener> listeners_;
  // Of the thread that reduces. It waits for the other workers before the next thread begins, so
  // that all workers reduce in one order. Guards all below.
  Turn turn_;
  GradientLayout::Groups groups_;
  std::vector<std::unique_ptr<GradientLayout>> layouts_;  // the same on all workers
  uint64_t layouts_made_ = 0;
  uint64_t last_applied_ = 0;  // the layout of the last update; 0: none
  GradientRounds rounds_;
  SlowWorkerWatch watch_;
  // When the last call ended, and how long this worker had spent by then in calls that workers
  // make together, in input and in writing checkpoints.
  GroupWaitClock::Clock::time_point last_end_ = GroupWaitClock::Clock::now();
  GroupWaitClock::Clock::duration waited_before_ = group_wait_->total();
  std::chrono::nanoseconds input_before_ = total_input();
  std::chrono::nanoseconds saving_before_ = total_saving();
};

}  // namespace cohort::internal
