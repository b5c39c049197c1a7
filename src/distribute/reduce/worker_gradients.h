#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "cohort/internal/gradient_listener.h"
#include "distribute/reduce/gradient_packs.h"
#include "distribute/reduce/worker_collectives.h"

namespace cohort::internal {

// What a worker does by itself between two calls with the other workers, in seconds.
struct BusyTimes {
  std::vector<float> total = {};  // by worker
  std::vector<float> input = {};  // of that, getting elements of datasets
};

// Finds the worker that all others wait for.
class SlowWorkerWatch {
 public:
  static constexpr int64_t kSteps = 20;      // that one finding is about
  static constexpr double kSlower = 1.2;     // how many times as long as the others it takes
  static constexpr double kLeastGap = 2e-3;  // seconds that the others wait; less is not logged

  struct Finding {
    size_t worker;
    double seconds;         // that its steps take, on average
    double input_seconds;   // of that, getting elements of datasets
    double others_seconds;  // that the steps of the others take
  };

  // Adds one step. Returns a finding if a worker was slow in the last steps. It looks after kSteps
  // steps, then after twice as many, and so on; once no worker is slow, after kSteps again.
  std::optional<Finding> add(const BusyTimes& busy);

 private:
  std::vector<double> sums_;
  std::vector<double> input_sums_;
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
    void begin(const std::vector<Variable>& sources) override;
    void ready(size_t index, const Gradient& gradient) override;

   private:
    WorkerGradients& all_;
    const size_t replica_;
  };

  // Seconds since the last call, without the time in calls that the workers make together.
  struct OwnTimes {
    float busy = 0;
    float input = 0;  // a part of busy
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
  void reduce_last_pack(GradientLayout& layout, const ReplicaGradients& own, bool as_announced,
                        OwnTimes times);
  Gradient sum_rows(const ReplicaGradients& own, const Variable& variable, size_t index);
  OwnTimes own_times() const;
  void end_call(GroupWaitClock::Clock::time_point began);
  // `times`: how long each worker was busy, then how much of that time was input.
  void look_for_slow_worker(std::span<const float> times);

  Communicator workers_;
  const Options options_;
  const CollectiveOptions how_;
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
  // make together and in input.
  GroupWaitClock::Clock::time_point last_end_ = GroupWaitClock::Clock::now();
  GroupWaitClock::Clock::duration waited_before_ = group_wait_->total();
  std::chrono::nanoseconds input_before_ = total_input();
};

}  // namespace cohort::internal
