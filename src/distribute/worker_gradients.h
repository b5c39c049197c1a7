#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "autodiff/gradient_listener.h"
#include "cohort/collective.h"
#include "cohort/cross_device_ops.h"
#include "distribute/slow_worker.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// The sums over workers of the gradients of variables. Dense ones are written into packs, memory
// that the workers of one machine share, and reduced there; of sparse ones the rows travel. The
// workers agree once for each list of variables which of them have rows; from then on a gradient
// that a worker does not have, or has in the other form, is no disagreement. Thread-safe.
//
// With `overlap` it listens to tapes. Once all workers have seen that what a tape gave for a list
// of variables is what was applied, packs are reduced as soon as their gradients are final, while
// the backward pass goes on; all but the last one, which goes when the gradients are applied, and
// tells whether each worker still applies what its tape gave. If one does not, the packs are
// reduced again.
class WorkerGradients : public GradientListener {
 public:
  // `meetings` counts what else this worker does together with others.
  WorkerGradients(Communicator workers, bool overlap, CommunicationOptions options,
                  std::shared_ptr<const MeetingClock> meetings);
  ~WorkerGradients() override;

  // One for each variable; undefined where no worker has one. Dense ones lie in the packs: they are
  // good until the next call. All workers call it.
  std::vector<Gradient> sum(const std::vector<Gradient>& own,
                            const std::vector<Variable>& variables);
  bool overlaps() const { return overlap_; }

  void begin(const std::vector<Variable>& sources) override;
  void ready(size_t index, const Gradient& gradient) override;

  // How many packs were reduced before their gradients were applied.
  int64_t early_packs() const { return early_packs_; }

 private:
  // Where the dense gradient of a variable lies.
  struct Place {
    size_t pack;
    size_t index;
  };
  // What the workers have agreed on for a list of variables.
  struct Layout {
    std::vector<VariableImpl*> variables = {};
    std::vector<bool> has_rows = {};
    std::vector<Place> places = {};  // of those without rows
    std::vector<size_t> sizes = {};  // how many gradients each pack has
    // The last one also has, for each variable, how many workers have a gradient; then how many
    // apply something else than their tape gave; then how long each worker was busy; then how much
    // of that each spent getting its input.
    std::vector<Pack> packs = {};
    Place counts = {};
    bool is_early = false;  // packs go as soon as they are complete
  };
  // Seconds since the last call, outside of meetings.
  struct OwnTimes {
    float busy = 0;
    float input = 0;  // a part of busy
  };
  // What the tape has given since it began.
  struct Announced {
    std::vector<VariableImpl*> variables = {};
    std::vector<Gradient> gradients = {};
    std::vector<size_t> order = {};    // in which they came
    Layout* layout = nullptr;          // when packs go early
    std::vector<size_t> missing = {};  // by pack
    size_t next = 0;                   // the first pack that has not gone
    std::vector<std::future<void>> running = {};
  };

  Layout& layout_for(const std::vector<Gradient>& own, const std::vector<Variable>& variables);
  Layout* known_layout(const std::vector<VariableImpl*>& variables);
  void agree_on_rows(Layout& layout, const std::vector<Gradient>& own);
  std::vector<size_t> agree_on_order(const Layout& layout);
  void make_packs(Layout& layout, const std::vector<Variable>& variables);
  bool is_as_announced(const Layout& layout, const std::vector<Gradient>& own) const;
  void write(Layout& layout, size_t variable, const Gradient& gradient);
  // Writes and reduces those before the last.
  void reduce_first_packs(Layout& layout, const std::vector<Gradient>& own);
  void reduce_last_pack(Layout& layout, const std::vector<Gradient>& own, bool as_announced,
                        OwnTimes times);
  void end_early_packs();
  OwnTimes own_times() const;
  void look_for_slow_worker(std::span<const float> times);

  Communicator workers_;
  const bool overlap_;
  const CommunicationOptions options_;
  const CollectiveOptions how_;
  const std::shared_ptr<const MeetingClock> meetings_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::unique_ptr<Layout>> layouts_;
  std::optional<Announced> announced_;
  int64_t early_packs_ = 0;
  SlowWorkerWatch watch_;
  // When the last call ended, and how long this worker had been in meetings and input by then.
  MeetingClock::Clock::time_point last_end_ = MeetingClock::Clock::now();
  MeetingClock::Clock::duration met_before_{};
  std::chrono::nanoseconds input_before_ = total_input();
};

}  // namespace cohort::internal
