#include "distribute/reduce/worker_gradients.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "cohort/ops.h"
#include "collectives/communicator_access.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/tensor_reduction.h"

namespace cohort::internal {
namespace {

void add_times(std::vector<double>& sums, const std::vector<float>& values) {
  sums.resize(values.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
}

// While a pack of this size is reduced, the next pack is written.
constexpr int64_t kBytesPerPack = 8 << 20;

// The rows of a gradient of any form.
IndexedSlices as_rows(const Gradient& gradient, const Variable& variable) {
  if (gradient.is_sparse()) return gradient.slices();
  const Gradient empty = zero_gradient(variable.dtype(), variable.shape(), true);
  if (!gradient.defined()) return empty.slices();
  const std::vector<Gradient> parts{gradient, empty};
  return join_slices(ReduceOp::Sum, parts);
}

// Whether the gradient of the variable has the property in some replica.
bool any_replica(const ReplicaGradients& own, size_t variable, bool (Gradient::*property)() const) {
  return std::any_of(own.begin(), own.end(),
                     [&](const Gradients& each) { return (each[variable].*property)(); });
}

}  // namespace

std::optional<SlowWorkerWatch::Finding> SlowWorkerWatch::add(const BusyTimes& busy) {
  add_times(sums_, busy.total);
  add_times(input_sums_, busy.input);
  add_times(saving_sums_, busy.saving);
  if (++steps_ < next_ || sums_.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(sums_.begin(), sums_.end());
  const double own = *slowest / static_cast<double>(steps_);
  const double rest = std::accumulate(sums_.begin(), sums_.end(), 0.0) - *slowest;
  const double others = rest / static_cast<double>(steps_) / static_cast<double>(sums_.size() - 1);
  const auto worker = static_cast<size_t>(slowest - sums_.begin());
  const double input = input_sums_[worker] / static_cast<double>(steps_);
  const double saving = saving_sums_[worker] / static_cast<double>(steps_);
  for (std::vector<double>* const sums : {&sums_, &input_sums_, &saving_sums_}) {
    std::fill(sums->begin(), sums->end(), 0);
  }
  steps_ = 0;
  if (own < others * kSlower || own - others < kLeastGap || own < kLeastStep) {
    next_ = kSteps;
    return std::nullopt;
  }
  next_ *= 2;
  return Finding{worker, own, input, saving, others};
}

WorkerGradients::WorkerGradients(Communicator workers, Options options,
                                 std::shared_ptr<const GroupWaitClock> group_wait)
    : workers_(workers),
      options_(std::move(options)),
      how_(options_.communication),
      group_wait_(std::move(group_wait)),
      groups_{workers, options_.overlap ? make_background_group(workers) : workers},
      rounds_(groups_.early, options_.replicas, options_.add) {
  for (size_t replica = 0; replica < options_.replicas; ++replica) {
    listeners_.emplace_back(*this, replica);
  }
}

// Closing the group ends the reductions of packs that the other workers do not reduce any more.
WorkerGradients::~WorkerGradients() {
  if (options_.overlap) groups_.early.close();
  (void)capture_status([&] { rounds_.await({}); });
}

std::vector<Gradient> WorkerGradients::sum(const ReplicaGradients& own,
                                           const std::vector<Variable>& variables) {
  const std::lock_guard one_at_a_time(turn_);
  const auto began = GroupWaitClock::Clock::now();
  const OwnTimes times = own_times();
  // The other workers may have started packs that this worker has not: each worker reduces every
  // pack of the expected update once.
  rounds_.start_rest();
  GradientLayout& layout = layout_for(own, variables);
  const bool is_expected = &layout == rounds_.expected();
  const bool as_announced = rounds_.gave(layout, own);
  Reductions running;
  if (!is_expected) running = start_first_packs(layout, own);
  write(layout, layout.counts.pack, own);
  write_counts(layout, own, as_announced, times);
  // When this call returns, all workers are known to be at this update. Only then may this worker
  // wait for the earlier packs, whose group never reports a worker as missing.
  workers_.all_reduce(layout.packs.back(), ReduceOp::Sum, how_);
  const std::span<const float> counts = layout.packs.back().data<float>(layout.counts.index);
  const bool all_as_announced = counts[variables.size()] == 0;
  rounds_.await(how_);
  if (is_expected && !all_as_announced) running = start_first_packs(layout, own);
  for (std::future<void>& each : running) each.get();
  look_for_slow_worker(counts.subspan(variables.size() + 1));
  layout.is_announced = all_as_announced;
  rounds_.begin_round(expect_after(layout));
  end_call(began);
  std::vector<Gradient> sums(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    if (counts[i] == 0) continue;
    sums[i] = layout.has_rows[i]
                  ? sum_rows(own, variables[i], i)
                  : Gradient(layout.packs[layout.places[i].pack].view(layout.places[i].index));
  }
  return sums;
}

// Records that `layout` was updated. Returns the layout that came after it the last time.
GradientLayout* WorkerGradients::expect_after(GradientLayout& layout) {
  if (GradientLayout* const before = numbered_layout(last_applied_)) {
    before->is_successor_likely = before->successor == layout.id;
    before->successor = layout.id;
  }
  last_applied_ = layout.id;
  if (!options_.overlap || !layout.is_successor_likely) return nullptr;
  GradientLayout* const next = numbered_layout(layout.successor);
  return next != nullptr && next->is_announced && next->packs.size() > 1 ? next : nullptr;
}

Gradient WorkerGradients::sum_rows(const ReplicaGradients& own, const Variable& variable,
                                   size_t index) {
  const Gradient here = totals_of(own, {index}, options_.add)[0];
  return workers_.all_reduce(as_rows(here, variable), ReduceOp::Sum, how_);
}

WorkerGradients::OwnTimes WorkerGradients::own_times() const {
  using Seconds = std::chrono::duration<float>;
  const auto since = GroupWaitClock::Clock::now() - last_end_;
  const auto waited = group_wait_->total() - waited_before_;
  return {.busy = Seconds(since - waited).count(),
          .input = Seconds(total_input() - input_before_).count(),
          .saving = Seconds(total_saving() - saving_before_).count()};
}

void WorkerGradients::end_call(GroupWaitClock::Clock::time_point began) {
  last_end_ = GroupWaitClock::Clock::now();
  waited_before_ = group_wait_->total();
  input_before_ = total_input();
  saving_before_ = total_saving();
  note_group_wait(last_end_ - began);
  note_step();
}

void WorkerGradients::look_for_slow_worker(std::span<const float> times) {
  const auto of_workers = [&](int part) {
    const auto begin = times.begin() + static_cast<ptrdiff_t>(part) * workers_.size();
    return std::vector<float>(begin, begin + workers_.size());
  };
  const auto found =
      watch_.add({.total = of_workers(0), .input = of_workers(1), .saving = of_workers(2)});
  // All workers find the same, because the times are sums of all; one of them logs it.
  if (!found || workers_.rank() != 0) return;
  log_warning(
      "[MultiWorkerMirroredStrategy] the others wait for {}: its steps take {:.1f} ms ({:.1f} ms "
      "input, {:.1f} ms compute, {:.1f} ms saving), theirs {:.1f} ms",
      workers_.member(static_cast<int>(found->worker)), found->seconds * 1e3,
      found->input_seconds * 1e3, found->compute_seconds() * 1e3, found->saving_seconds * 1e3,
      found->others_seconds * 1e3);
}

// ---- Packs

GradientLayout* WorkerGradients::numbered_layout(uint64_t number) {
  for (const auto& known : layouts_) {
    if (known->id == number) return known.get();
  }
  return nullptr;
}

GradientLayout& WorkerGradients::layout_for(const ReplicaGradients& own,
                                            const std::vector<Variable>& variables) {
  const VariableList wanted(variables);
  for (const auto& known : layouts_) {
    if (known->variables == wanted) return *known;
  }
  forget_gone();
  GradientLayout& made = *layouts_.emplace_back(make_layout(own, variables));
  made.id = made.successor = ++layouts_made_;
  return made;
}

// A variable may end on one worker before it ends on another. All workers forget the same layouts.
void WorkerGradients::forget_gone() {
  if (layouts_.empty()) return;
  std::vector<int32_t> own;
  for (const auto& known : layouts_) {
    const bool is_wanted = known.get() == rounds_.expected() || !known->variables.is_gone();
    own.push_back(is_wanted ? 1 : 0);
  }
  const CollectivePurpose purpose("which gradients are no longer wanted");
  const auto wanted =
      workers_.all_reduce(Tensor::from(own), ReduceOp::Max, how_).to_vector<int32_t>();
  for (size_t i = layouts_.size(); i > 0; --i) {
    if (wanted[i - 1] == 0) layouts_.erase(layouts_.begin() + static_cast<ptrdiff_t>(i - 1));
  }
}

std::unique_ptr<GradientLayout> WorkerGradients::make_layout(
    const ReplicaGradients& own, const std::vector<Variable>& variables) {
  GradientLayout::Proposal proposal{.has_rows = {}, .order = rounds_.order_of(variables)};
  for (size_t i = 0; i < variables.size(); ++i) {
    proposal.has_rows.push_back(any_replica(own, i, &Gradient::is_sparse));
  }
  const int64_t asked = options_.communication.bytes_per_pack;
  return std::make_unique<GradientLayout>(groups_, variables, proposal,
                                          asked > 0 ? asked : kBytesPerPack, how_);
}

void WorkerGradients::write(GradientLayout& layout, size_t pack, const ReplicaGradients& own) {
  const std::vector<size_t> members = layout.members(pack);
  const std::vector<Gradient> totals = totals_of(own, members, options_.add);
  for (size_t k = 0; k < members.size(); ++k) layout.write(members[k], totals[k]);
}

WorkerGradients::Reductions WorkerGradients::start_first_packs(GradientLayout& layout,
                                                               const ReplicaGradients& own) {
  Reductions running;
  for (size_t number = 0; number < layout.counts.pack; ++number) {
    write(layout, number, own);
    running.push_back(groups_.early.start_all_reduce(layout.packs[number], ReduceOp::Sum, how_));
  }
  return running;
}

void WorkerGradients::write_counts(GradientLayout& layout, const ReplicaGradients& own,
                                   bool as_announced, OwnTimes times) {
  const std::span<float> counts = layout.packs.back().data<float>(layout.counts.index);
  const size_t variables = layout.variables.size();
  for (size_t i = 0; i < variables; ++i)
    counts[i] = any_replica(own, i, &Gradient::defined) ? 1 : 0;
  counts[variables] = as_announced ? 0 : 1;
  const std::span<float> all_times = counts.subspan(variables + 1);
  const auto rank = static_cast<size_t>(workers_.rank());
  std::fill(all_times.begin(), all_times.end(), 0.f);
  all_times[rank] = times.busy;
  const auto size = static_cast<size_t>(workers_.size());
  all_times[rank + size] = times.input;
  all_times[rank + 2 * size] = times.saving;
}

}  // namespace cohort::internal
