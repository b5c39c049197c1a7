#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cohort/internal/gradient_listener.h"
#include "distribute/gradient_rounds.h"
#include "distribute/slow_worker.h"

namespace cohort::internal {

// The sums over workers of the gradients of variables. Dense ones are written into packs, memory
// that the workers of one machine share, and reduced there; of sparse ones the rows travel. The
// workers agree once for each list of variables which of them have rows; from then on a gradient
// that a worker does not have, or has in the other form, is no disagreement. Lists are told apart
// by their variables, which all workers make alike: so either all workers know a list or none does.
// Thread-safe.
//
// With `overlap` it listens to the tapes of the worker's replicas. Once all workers have seen that
// what the tapes gave for a list of variables is what was applied, packs are reduced as soon as
// their gradients are final in all replicas, while the backward pass goes on; all but the last one,
// which goes when the gradients are applied, and tells whether each worker still applies what its
// tapes gave. If one does not, the packs are reduced again. GradientRounds says which packs go.
class WorkerGradients {
 public:
  struct Options {
    bool overlap = false;
    CommunicationOptions communication = {};
    size_t replicas = 1;     // of this worker
    GradientAdder add = {};  // where there are several
  };
  // `meetings` counts what else this worker does together with others. All workers call it.
  WorkerGradients(Communicator workers, Options options,
                  std::shared_ptr<const MeetingClock> meetings);
  ~WorkerGradients();

  // One for each variable; undefined where no worker has one. Dense ones lie in the packs: they are
  // good until the next call. All workers call it, once for all their replicas.
  std::vector<Gradient> sum(const ReplicaGradients& own, const std::vector<Variable>& variables);
  // Of each worker, in their order, for an optimizer that adds them up as it updates: each lies
  // where its worker wrote it, which saves a pass over all of them. Only for a few workers that
  // share memory, of one replica each, without overlap, and for dense gradients: otherwise empty.
  // Good until the next call. All workers call it.
  std::vector<Gradients> terms(const Gradients& own, const std::vector<Variable>& variables);
  bool overlaps() const { return options_.overlap; }
  // Of the tapes of a replica.
  GradientListener& listener(size_t replica) { return listeners_[replica]; }

  // How many packs were reduced before their gradients were applied.
  int64_t early_packs() const { return rounds_.early_packs(); }
  // For how many lists of variables it holds packs.
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

  // Seconds since the last call, outside of meetings.
  struct OwnTimes {
    float busy = 0;
    float input = 0;  // a part of busy
  };

  GradientLayout& layout_for(const ReplicaGradients& own, const std::vector<Variable>& variables);
  GradientLayout* numbered_layout(uint64_t number);
  void forget_gone();
  // The layout whose packs go before the next update; null: none do.
  GradientLayout* expect_after(GradientLayout& layout);
  // The one of the two that nobody reads from.
  GradientLayout& next_twin(GradientLayout& layout, const std::vector<Variable>& variables);
  std::unique_ptr<GradientLayout> make_layout(const ReplicaGradients& own,
                                              const std::vector<Variable>& variables);
  void end_terms();
  void write(GradientLayout& layout, size_t pack, const ReplicaGradients& own);
  // What each worker says beside the gradients of the last pack.
  void write_counts(GradientLayout& layout, const ReplicaGradients& own, bool as_announced,
                    OwnTimes times);
  // Writes those before the last, and begins to reduce them.
  using Reductions = std::vector<std::future<void>>;
  Reductions start_first_packs(GradientLayout& layout, const ReplicaGradients& own);
  void reduce_last_pack(GradientLayout& layout, const ReplicaGradients& own, bool as_announced,
                        OwnTimes times);
  Gradient sum_rows(const ReplicaGradients& own, const Variable& variable, size_t index);
  OwnTimes own_times() const;
  void end_call(MeetingClock::Clock::time_point began);
  // How long each worker was busy, then how much of that was input.
  void look_for_slow_worker(std::span<const float> times);

  Communicator workers_;
  const Options options_;
  const CollectiveOptions how_;
  const std::shared_ptr<const MeetingClock> meetings_;
  std::vector<Listener> listeners_;
  std::mutex mutex_;
  // Guarded by mutex_:
  GradientLayout::Groups groups_;
  std::vector<std::unique_ptr<GradientLayout>> layouts_;  // the same on all workers
  uint64_t layouts_made_ = 0;
  uint64_t last_applied_ = 0;  // the layout of the last update; 0: none
  GradientRounds rounds_;
  bool gave_terms_ = false;  // which others may still read
  SlowWorkerWatch watch_;
  // When the last call ended, and how long this worker had been in meetings and input by then.
  MeetingClock::Clock::time_point last_end_ = MeetingClock::Clock::now();
  MeetingClock::Clock::duration met_before_ = meetings_->total();
  std::chrono::nanoseconds input_before_ = total_input();
};

}  // namespace cohort::internal
