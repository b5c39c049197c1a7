#include "distribute/input_iterator.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/activity.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "cohort/strategy.h"
#include "data/dummy.h"
#include "data/element_access.h"
#include "data/state.h"
#include "distribute/context.h"
#include "ops/dispatch.h"
#include "tensor/on_device.h"

namespace cohort::internal {

using data::Element;

int64_t sample_count(const Element& element) {
  const std::vector<Tensor>& tensors = data::internal::tensors_of(element);
  if (tensors.empty()) return 1;
  const Shape shape = tensors[0].shape();
  if (!shape.has_rank()) return Shape::kUnknownDim;
  return shape.rank() == 0 ? 1 : shape[0];
}

namespace {

Element element_on(const Device* device, Element element) {
  if (device == nullptr) return element;
  for (Tensor& tensor : data::internal::ElementAccess::tensors(element)) {
    tensor = on_device(tensor, *device);
  }
  return element;
}

}  // namespace

DistributedInputIterator::DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                                   const std::string* position,
                                                   std::optional<int64_t> number)
    : input_(std::move(input)), spec_(input_->static_spec()) {
  if (position != nullptr) {
    restore(*position);
    return;
  }
  for (const data::Dataset& pipeline : input_->pipelines) {
    iterators_.push_back(number ? data::internal::iterate_as(pipeline, *number)
                                : pipeline.iterate());
  }
}

void DistributedInputIterator::check_caller() const {
  if (input_->strategy == nullptr) return;
  if (thread_dispatch().builder != nullptr && !data::internal::tracing()) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] next() was called while a graph is being built; call it outside "
          "and feed the elements, or trace a function");
  }
  if (!has_strategy()) return;
  const EnterOrAssert same(*input_->strategy, "DistributedIterator::next");
  if (get_replica_context() != nullptr) {
    raise(Code::InvalidArgument,
          "[DistributedIterator] next() gives elements to all replicas, so it cannot be called "
          "inside of one; call it outside of run() and pass the element as an argument");
  }
}

std::optional<DistributedElement> DistributedInputIterator::next_step(LastStep last_step) {
  const std::lock_guard lock(mutex_);
  if (ended_) return std::nullopt;
  const bool always = last_step == LastStep::Filled && input_->cardinality != data::kInfinite;
  const bool filled = input_->fills_partial_steps || always;

  const Status drawing = capture_status([this] { draw(); });
  const InputTotals found = filled ? totals_of_all_workers(drawing) : totals(drawing);
  throw_if_error(drawing);
  if (found.undescribed_workers > 0 && found.replicas_with_data > 0) learn_empty_element();
  ended_ = filled ? found.replicas_with_data == 0 : !is_complete();
  if (ended_) {
    drawn_.clear();
    return std::nullopt;
  }
  if (!filled && input_->several_workers()) return deliver(std::nullopt);
  return deliver(found.samples);
}

void DistributedInputIterator::draw() {
  const InputNote input;
  const TimelineSpan span("input", "input");
  while (drawn_.size() < input_->replicas()) {
    data::Iterator& from = iterators_[drawn_.size() % iterators_.size()];
    drawn_.push_back(from.next_optional());
    if (!spec_ && drawn_.back()) {
      spec_ = data::internal::with_unknown_rows(data::ElementSpec(*drawn_.back()));
    }
  }
}

InputTotals DistributedInputIterator::totals(const Status& drawing) const {
  InputTotals here{.failed_workers = drawing.ok() ? 0 : 1};
  for (const std::optional<Element>& element : drawn_) {
    if (!element) continue;
    ++here.replicas_with_data;
    here.samples += sample_count(*element);
  }
  return here;
}

InputTotals DistributedInputIterator::totals_of_all_workers(const Status& drawing) {
  InputTotals here = totals(drawing);
  here.undescribed_workers = lacks_empty_element() ? 1 : 0;
  const InputTotals all = input_->sum_over_workers(here);
  if (all.failed_workers > 0) hear_of_failures(drawing);
  return all;
}

void DistributedInputIterator::hear_of_failures(const Status& drawing) const {
  const std::vector<std::string> told =
      input_->gather_from_workers(drawing.ok() ? "" : drawing.to_string());
  if (!drawing.ok()) return;  // and throws its own
  std::vector<std::string> failures;
  for (size_t worker = 0; worker < told.size(); ++worker) {
    if (!told[worker].empty())
      failures.push_back(fmt::format("worker {}: {}", worker, told[worker]));
  }
  raise(Code::Aborted,
        "[DistributedIterator] the input pipelines of other workers failed in this step; {}",
        failures.empty() ? "their logs say why" : fmt::format("{}", fmt::join(failures, "; ")));
}

bool DistributedInputIterator::is_complete() const {
  return std::ranges::all_of(drawn_, [](const auto& element) { return element.has_value(); });
}

DistributedElement DistributedInputIterator::deliver(std::optional<int64_t> global_samples) {
  std::vector<int64_t> counts;
  for (size_t replica = 0; replica < drawn_.size(); ++replica) {
    std::optional<Element>& element = drawn_[replica];
    counts.push_back(element ? sample_count(*element) : 0);
    if (!element) element = empty_element();
    element = element_on(input_->devices[replica], *std::move(element));
  }
  return DistributedElement(std::exchange(drawn_, {}), is_alone(), std::move(counts),
                            global_samples);
}

std::string DistributedInputIterator::save() {
  const std::lock_guard lock(mutex_);
  data::internal::StateWriter state;
  state.stage("DistributedIterator");
  state.integer(input_->context.num_input_pipelines());
  state.integer(input_->context.input_pipeline_id());
  state.integer(static_cast<int64_t>(input_->replicas()));
  state.flag(ended_);
  state.integer(static_cast<int64_t>(drawn_.size()));
  for (const std::optional<Element>& element : drawn_) {
    state.flag(element.has_value());
    if (element) state.element(*element);
  }
  for (data::Iterator& iterator : iterators_) state.text(iterator.save());
  return sealed(state);
}

void DistributedInputIterator::restore(const std::string& position) {
  data::internal::StateReader state(data::internal::unsealed(position));
  state.stage("DistributedIterator");
  const auto replicas = static_cast<int64_t>(input_->replicas());
  if (state.integer() != input_->context.num_input_pipelines() ||
      state.integer() != input_->context.input_pipeline_id() || state.integer() != replicas) {
    data::internal::raise_bad_state("it is of another worker or number of replicas");
  }
  ended_ = state.flag();
  const int64_t drawn = state.integer(0, replicas);
  for (int64_t i = 0; i < drawn; ++i) {
    drawn_.push_back(state.flag() ? std::optional(state.element()) : std::nullopt);
  }
  for (const data::Dataset& pipeline : input_->pipelines) {
    iterators_.push_back(pipeline.iterate(state.text()));
  }
  if (!state.at_end()) data::internal::raise_bad_state("it has more pipelines");
}

}  // namespace cohort::internal
