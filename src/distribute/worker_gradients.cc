#include "distribute/worker_gradients.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/log.h"
#include "cohort/ops.h"
#include "distribute/sparse_reduction.h"
#include "distribute/worker_reductions.h"

namespace cohort::internal {
namespace {

// While one pack of this size is reduced the next one is written.
constexpr int64_t kBytesPerPack = 8 << 20;

std::vector<VariableImpl*> identities(const std::vector<Variable>& variables) {
  std::vector<VariableImpl*> all;
  for (const Variable& variable : variables) all.push_back(VariableAccess::impl(variable).get());
  return all;
}

int64_t bytes_of(const Variable& variable) {
  return variable.shape().num_elements() * size_of(variable.dtype());
}

// The rows of a gradient of any form.
IndexedSlices as_rows(const Gradient& gradient, const Variable& variable) {
  if (gradient.defined() && gradient.is_sparse()) return gradient.slices();
  const Shape shape = variable.shape();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[0] = 0;
  const IndexedSlices empty{zeros(Shape(sizes), variable.dtype()), zeros({0}, kInt64), shape};
  if (!gradient.defined()) return empty;
  const std::vector<Gradient> parts{gradient, Gradient(empty)};
  return join_slices(ReduceOp::Sum, parts);
}

bool is_same(const Gradient& a, const Gradient& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.is_sparse() || b.is_sparse()) return a.is_sparse() == b.is_sparse();
  return TensorAccess::id(a.dense()) == TensorAccess::id(b.dense());
}

}  // namespace

WorkerGradients::WorkerGradients(Communicator workers, bool overlap, CommunicationOptions options,
                                 std::shared_ptr<const MeetingClock> meetings)
    : workers_(std::move(workers)),
      overlap_(overlap),
      options_(options),
      how_(collective_options(options)),
      meetings_(std::move(meetings)) {}

WorkerGradients::~WorkerGradients() {
  (void)capture_status([&] { end_early_packs(); });
}

std::vector<Gradient> WorkerGradients::sum(const std::vector<Gradient>& own,
                                           const std::vector<Variable>& variables) {
  const std::lock_guard lock(mutex_);
  const auto began = MeetingClock::Clock::now();
  const OwnTimes times = own_times();
  Layout& layout = layout_for(own, variables);
  const bool as_announced = is_as_announced(layout, own);
  if (!layout.is_early) reduce_first_packs(layout, own);
  reduce_last_pack(layout, own, as_announced, times);
  const std::span<const float> counts = layout.packs.back().data<float>(layout.counts.index);
  const bool all_as_announced = counts[own.size()] == 0;
  if (layout.is_early) {
    end_early_packs();
    if (!all_as_announced) reduce_first_packs(layout, own);
  }
  look_for_slow_worker(counts.subspan(own.size() + 1));
  layout.is_early = overlap_ && all_as_announced && layout.packs.size() > 1;
  announced_.reset();
  last_end_ = MeetingClock::Clock::now();
  met_before_ = meetings_->total();
  input_before_ = total_input();
  note_meeting(last_end_ - began);
  note_step();
  std::vector<Gradient> sums(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    if (counts[i] == 0) continue;
    if (layout.has_rows[i]) {
      sums[i] = workers_.all_reduce(as_rows(own[i], variables[i]), ReduceOp::Sum, how_);
    } else {
      sums[i] = layout.packs[layout.places[i].pack].view(layout.places[i].index);
    }
  }
  return sums;
}

WorkerGradients::OwnTimes WorkerGradients::own_times() const {
  using Seconds = std::chrono::duration<float>;
  const auto since = MeetingClock::Clock::now() - last_end_;
  const auto met = meetings_->total() - met_before_;
  return {.busy = Seconds(since - met).count(),
          .input = Seconds(total_input() - input_before_).count()};
}

void WorkerGradients::look_for_slow_worker(std::span<const float> times) {
  const auto middle = times.begin() + workers_.size();
  const auto found = watch_.add({.total = {times.begin(), middle}, .input = {middle, times.end()}});
  if (!found || workers_.rank() != 0) return;
  log_warning(
      "[MultiWorkerMirroredStrategy] the others wait for {}: its steps take {:.1f} ms ({:.1f} ms "
      "input, {:.1f} ms compute), theirs {:.1f} ms",
      workers_.member(static_cast<int>(found->worker)), found->seconds * 1e3,
      found->input_seconds * 1e3, (found->seconds - found->input_seconds) * 1e3,
      found->others_seconds * 1e3);
}

// ---- Packs

WorkerGradients::Layout* WorkerGradients::known_layout(
    const std::vector<VariableImpl*>& variables) {
  for (const auto& known : layouts_) {
    if (known->variables == variables) return known.get();
  }
  return nullptr;
}

WorkerGradients::Layout& WorkerGradients::layout_for(const std::vector<Gradient>& own,
                                                     const std::vector<Variable>& variables) {
  std::vector<VariableImpl*> wanted = identities(variables);
  if (Layout* const known = known_layout(wanted)) return *known;
  auto made = std::make_unique<Layout>(Layout{.variables = std::move(wanted)});
  agree_on_rows(*made, own);
  make_packs(*made, variables);
  return *layouts_.emplace_back(std::move(made));
}

void WorkerGradients::agree_on_rows(Layout& layout, const std::vector<Gradient>& own) {
  std::vector<int32_t> rows;
  for (const Gradient& gradient : own) rows.push_back(gradient.defined() && gradient.is_sparse());
  const Tensor any = workers_.all_reduce(Tensor::from(rows), ReduceOp::Max, how_);
  for (const int32_t each : any.to_vector<int32_t>()) layout.has_rows.push_back(each != 0);
}

// In which the gradients became final at the first worker; the last ones first where no tape said.
std::vector<size_t> WorkerGradients::agree_on_order(const Layout& layout) {
  std::vector<int64_t> order;
  const bool known = announced_ && announced_->variables == layout.variables &&
                     announced_->order.size() == layout.variables.size();
  for (size_t i = 0; i < layout.variables.size(); ++i) {
    order.push_back(
        static_cast<int64_t>(known ? announced_->order[i] : layout.variables.size() - 1 - i));
  }
  std::vector<size_t> agreed;
  for (const int64_t each : workers_.broadcast(Tensor::from(order), 0, how_).to_vector<int64_t>()) {
    agreed.push_back(static_cast<size_t>(each));
  }
  return agreed;
}

void WorkerGradients::make_packs(Layout& layout, const std::vector<Variable>& variables) {
  const int64_t limit = options_.bytes_per_pack > 0 ? options_.bytes_per_pack : kBytesPerPack;
  struct Plan {
    DType dtype;
    std::vector<Shape> shapes = {};
    std::vector<size_t> members = {};
    int64_t bytes = 0;
  };
  std::vector<Plan> plans;
  std::map<DType, size_t> open;  // the plan that is being filled, by dtype
  for (const size_t i : agree_on_order(layout)) {
    if (layout.has_rows[i]) continue;
    const DType dtype = variables[i].dtype();
    const auto found = open.find(dtype);
    if (found == open.end() || plans[found->second].bytes > limit) {
      open[dtype] = plans.size();
      plans.push_back({.dtype = dtype});
    }
    Plan& plan = plans[open[dtype]];
    plan.shapes.push_back(variables[i].shape());
    plan.members.push_back(i);
    plan.bytes += bytes_of(variables[i]);
  }
  // The last one has to be of float32, for the counts.
  if (!open.contains(kFloat32)) {
    plans.push_back({.dtype = kFloat32});
  } else {
    std::swap(plans[open[kFloat32]], plans.back());
  }
  layout.counts = {plans.size() - 1, plans.back().shapes.size()};
  plans.back().shapes.push_back(
      Shape{static_cast<int64_t>(variables.size()) + 1 + 2 * workers_.size()});
  layout.places.resize(variables.size());
  for (size_t number = 0; number < plans.size(); ++number) {
    const Plan& plan = plans[number];
    for (size_t k = 0; k < plan.members.size(); ++k) layout.places[plan.members[k]] = {number, k};
    layout.sizes.push_back(plan.members.size());
    layout.packs.push_back(workers_.make_pack(plan.dtype, plan.shapes, how_));
  }
}

void WorkerGradients::write(Layout& layout, size_t variable, const Gradient& gradient) {
  const Place place = layout.places[variable];
  Pack& pack = layout.packs[place.pack];
  pack.write(place.index,
             gradient.defined() ? gradient.dense() : zeros(pack.shape(place.index), pack.dtype()));
}

void WorkerGradients::reduce_first_packs(Layout& layout, const std::vector<Gradient>& own) {
  std::vector<std::future<void>> running;
  for (size_t number = 0; number + 1 < layout.packs.size(); ++number) {
    for (size_t i = 0; i < own.size(); ++i) {
      if (!layout.has_rows[i] && layout.places[i].pack == number) write(layout, i, own[i]);
    }
    running.push_back(workers_.start_all_reduce(layout.packs[number], ReduceOp::Sum, how_));
  }
  for (std::future<void>& each : running) each.get();
}

void WorkerGradients::reduce_last_pack(Layout& layout, const std::vector<Gradient>& own,
                                       bool as_announced, OwnTimes times) {
  Pack& last = layout.packs.back();
  const std::span<float> counts = last.data<float>(layout.counts.index);
  for (size_t i = 0; i < own.size(); ++i) {
    counts[i] = own[i].defined() ? 1 : 0;
    if (!layout.has_rows[i] && layout.places[i].pack == layout.counts.pack) {
      write(layout, i, own[i]);
    }
  }
  counts[own.size()] = as_announced ? 0 : 1;
  const std::span<float> told = counts.subspan(own.size() + 1);
  const auto rank = static_cast<size_t>(workers_.rank());
  std::fill(told.begin(), told.end(), 0.f);
  told[rank] = times.busy;
  told[rank + static_cast<size_t>(workers_.size())] = times.input;
  workers_.all_reduce(last, ReduceOp::Sum, how_);
}

// ---- Tapes

bool WorkerGradients::is_as_announced(const Layout& layout,
                                      const std::vector<Gradient>& own) const {
  return announced_ && announced_->variables == layout.variables &&
         announced_->order.size() == own.size() &&
         std::equal(own.begin(), own.end(), announced_->gradients.begin(), is_same);
}

void WorkerGradients::begin(const std::vector<Variable>& sources) {
  const std::lock_guard lock(mutex_);
  end_early_packs();  // nobody applied them
  announced_.emplace();
  announced_->variables = identities(sources);
  announced_->gradients.resize(sources.size());
  Layout* const layout = known_layout(announced_->variables);
  if (layout == nullptr || !layout->is_early) return;
  announced_->layout = layout;
  announced_->missing = layout->sizes;
}

void WorkerGradients::ready(size_t index, const Gradient& gradient) {
  const std::lock_guard lock(mutex_);
  announced_->gradients[index] = gradient;
  announced_->order.push_back(index);
  Layout* const layout = announced_->layout;
  if (layout == nullptr || layout->has_rows[index]) return;
  const size_t pack = layout->places[index].pack;
  if (pack == layout->counts.pack) return;
  write(*layout, index, gradient);
  --announced_->missing[pack];
  // All workers reduce them in the same order.
  for (size_t& next = announced_->next;
       next + 1 < layout->packs.size() && announced_->missing[next] == 0; ++next) {
    announced_->running.push_back(
        workers_.start_all_reduce(layout->packs[next], ReduceOp::Sum, how_));
    ++early_packs_;
  }
}

void WorkerGradients::end_early_packs() {
  if (!announced_) return;
  for (std::future<void>& each : announced_->running) each.get();
  announced_->running.clear();
}

}  // namespace cohort::internal
