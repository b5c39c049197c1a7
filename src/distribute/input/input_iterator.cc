// The iterator over a distributed dataset: what is drawn for each step, and what the workers
// settle.

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/activity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "base/worker_outcomes.h"
#include "cohort/strategy_extended.h"
#include "data/element_access.h"
#include "data/iterator_position.h"
#include "distribute/contexts/context.h"
#include "distribute/input/distributed_input.h"
#include "ops/dispatch.h"
#include "tensor/memory.h"
#include "transport/message_codec.h"

namespace cohort::internal {

using data::Element;
using data::ElementSpec;

int64_t sample_count(const Element& element) {
  const std::vector<Tensor>& tensors = data::internal::tensors_of(element);
  if (tensors.empty()) return 1;
  const Shape shape = tensors[0].shape();
  if (!shape.has_rank()) return Shape::kUnknownDim;
  return shape.rank() == 0 ? 1 : shape[0];
}

namespace {

// Where a position was saved.
struct Origin {
  int64_t workers;
  int64_t worker;
  int64_t replicas;
  friend bool operator==(const Origin&, const Origin&) = default;
};

std::string share_text(const Origin& origin) {
  return fmt::format("worker {} of {} with {} replica{}", origin.worker, origin.workers,
                     origin.replicas, origin.replicas == 1 ? "" : "s");
}

Element element_on(const Device* device, Element element) {
  if (device == nullptr) return element;
  for (Tensor& tensor : data::internal::ElementAccess::tensors(element)) {
    tensor = on_device(tensor, *device);
  }
  return element;
}

// A program may distribute the same dataset again in every epoch.
bool is_first_warning_of(const std::string& stages) {
  static Mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  return warned.insert(stages).second;
}

}  // namespace

DistributedInputIterator::DistributedInputIterator(std::shared_ptr<const DistributedInput> input,
                                                   const std::string* position,
                                                   std::optional<int64_t> number)
    : input_(std::move(input)), number_(number), spec_(input_->static_spec()) {
  if (position == nullptr) return;
  restore(*position);
  input_->walks->include_pass(*number_);
  if (!input_->several_workers()) begin();
}

void DistributedInputIterator::check_caller() const {
  if (input_->strategy == nullptr) return;
  if (builds_session_graph()) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] next() was called while a graph is being built; call it outside "
          "and feed the elements, or trace a function");
  }
  if (!has_strategy()) return;
  const EnterOrAssert same(*input_->strategy, "DistributedIterator::next");
  if (get_replica_context() != nullptr) {
    raise(Code::InvalidArgument,
          "[DistributedIterator] next() gives elements to all replicas, so it cannot be called "
          "inside one; call it outside of run() and pass the element as an argument");
  }
}

std::optional<DistributedElement> DistributedInputIterator::next_step(LastStep last_step) {
  const std::lock_guard one_at_a_time(turn_);
  if (ended_) return std::nullopt;
  agree();
  const bool wanted = input_->fills_partial_steps || last_step == LastStep::Filled;
  const bool filled = wanted && !terms_->endless;

  const Status drawing = capture_status([this] { draw(); });
  const InputTotals found = filled ? totals_of_all_workers(drawing) : totals(drawing);
  if (input_->several_workers()) throw_local_failure(drawing);
  throw_if_error(drawing);
  if (found.undescribed_workers > 0 && found.replicas_with_data > 0) learn_empty_element();
  if (!filled && terms_->endless && input_->several_workers() && !is_complete()) {
    raise_end_of_endless_data();
  }
  ended_ = filled ? found.replicas_with_data == 0 : !is_complete();
  if (ended_) {
    walk_->drawn.clear();
    return std::nullopt;
  }
  warn_of_rowless_replicas();
  if (!filled && input_->several_workers()) return deliver(terms_->samples);
  return deliver(found.samples);
}

void DistributedInputIterator::agree() const {
  if (!terms_) terms_ = input_->walks->agree(*input_, number_);
}

void DistributedInputIterator::begin() const {
  agree();
  if (walk_) return;
  walk_ = input_->walks->open(*terms_, restored_ ? &restored_->positions : nullptr);
  if (restored_) walk_->drawn = restored_->drawn;
  for (const std::optional<Element>& element : walk_->drawn) learn_spec(element);
}

void DistributedInputIterator::learn_spec(const std::optional<Element>& element) const {
  if (spec_ || !element) return;
  spec_ = data::internal::with_unknown_rows(data::ElementSpec(*element));
  input_->walks->learn_spec(*spec_);
}

void DistributedInputIterator::draw_one() const {
  std::vector<std::optional<Element>>& drawn = walk_->drawn;
  drawn.push_back(walk_->iterators[drawn.size() % walk_->iterators.size()].next_optional());
  learn_spec(drawn.back());
}

void DistributedInputIterator::draw() {
  const InputNote input;
  const TimelineSpan span("input", "input");
  begin();
  while (walk_->drawn.size() < input_->replicas()) draw_one();
}

InputTotals DistributedInputIterator::totals(const Status& drawing) const {
  InputTotals here{.failed_workers = drawing.ok() ? 0 : 1};
  if (!walk_) return here;
  for (const std::optional<Element>& element : walk_->drawn) {
    if (!element) continue;
    ++here.replicas_with_data;
    here.samples += sample_count(*element);
  }
  return here;
}

InputTotals DistributedInputIterator::totals_of_all_workers(const Status& drawing) {
  InputTotals here = totals(drawing);
  here.undescribed_workers = lacks_empty_element() ? 1 : 0;
  const InputTotals all = input_->extended->sum_over_workers(here);
  if (all.failed_workers > 0) on_failure(drawing);
  return all;
}

void DistributedInputIterator::on_failure(const Status& drawing) const {
  const std::vector<std::string> texts = input_->extended->gather_from_workers(
      drawing.ok() ? "" : drawing.to_string(), "failures of input");
  if (!drawing.ok()) return;  // and throws its own
  std::vector<std::string> failures;
  for (size_t worker = 0; worker < texts.size(); ++worker) {
    if (!texts[worker].empty())
      failures.push_back(fmt::format("worker {}: {}", worker, texts[worker]));
  }
  // Not Aborted, which would say that a worker is lost.
  raise(Code::Cancelled,
        "[DistributedIterator] the input pipelines of other workers failed in this step; {}",
        failures.empty() ? "their logs say why" : fmt::format("{}", fmt::join(failures, "; ")));
}

// The others do not exchange totals in endless data: they would wait in the step for this worker.
void DistributedInputIterator::raise_end_of_endless_data() const {
  raise(Code::FailedPrecondition,
        "[DistributedIterator] the data of this worker has ended, although {} is endless by its "
        "description: the repeated dataset has no element here; give each worker at least one, or "
        "use AutoShardPolicy::Data",
        input_->pipelines[0].to_string());
}

bool DistributedInputIterator::is_complete() const {
  return std::ranges::all_of(walk_->drawn, [](const auto& element) { return element.has_value(); });
}

DistributedElement DistributedInputIterator::deliver(std::optional<int64_t> global_samples) {
  std::vector<int64_t> counts;
  std::vector<std::optional<Element>> drawn = std::exchange(walk_->drawn, {});
  bool is_cut_short = false;
  for (size_t replica = 0; replica < drawn.size(); ++replica) {
    std::optional<Element>& element = drawn[replica];
    counts.push_back(element ? sample_count(*element) : 0);
    is_cut_short |= element && counts.back() == 0;
    if (!element) element = empty_element();
    element = element_on(input_->devices[replica], *std::move(element));
  }
  if (is_cut_short && !is_alone() && !warned_of_rowless_) rowless_counts_ = counts;
  return DistributedElement(std::move(drawn), is_alone(), std::move(counts),
                            global_samples ? Tensor(*global_samples) : Tensor());
}

void DistributedInputIterator::warn_of_rowless_replicas() {
  if (rowless_counts_.empty()) return;
  const std::vector<int64_t> counts = std::exchange(rowless_counts_, {});
  warned_of_rowless_ = true;
  const std::string stages = input_->pipelines[0].to_string();
  if (!is_first_warning_of(stages)) return;
  log_warning(
      "[DistributedIterator] a step that is not the last of {} gave the replicas of this process "
      "{} rows: a replica without rows has nothing to do, and a mean over no rows is NaN; make the "
      "global batch size a multiple of the {} replicas, let batch() drop its remainder, or divide "
      "sums by the samples of all replicas, as nn::compute_average_loss() does",
      stages, fmt::join(counts, ", "), input_->context.num_replicas_in_sync());
}

std::string DistributedInputIterator::save() {
  const std::lock_guard one_at_a_time(turn_);
  data::internal::StateWriter state;
  state.stage("DistributedIterator");
  state.integer(input_->context.num_input_pipelines());
  state.integer(input_->context.input_pipeline_id());
  state.integer(static_cast<int64_t>(input_->replicas()));
  begin();
  state.integer(terms_->pass);
  state.flag(ended_);
  state.integer(static_cast<int64_t>(walk_->drawn.size()));
  for (const std::optional<Element>& element : walk_->drawn) {
    state.flag(element.has_value());
    if (element) state.element(*element);
  }
  for (data::Iterator& iterator : walk_->iterators) state.text(iterator.save());
  return sealed(state);
}

void DistributedInputIterator::restore(const std::string& position) {
  data::internal::StateReader state(data::internal::unsealed(position));
  state.stage("DistributedIterator");
  const auto replicas = static_cast<int64_t>(input_->replicas());
  const Origin saved{state.integer(), state.integer(), state.integer()};
  const Origin here{input_->context.num_input_pipelines(), input_->context.input_pipeline_id(),
                    replicas};
  if (saved != here) {
    data::internal::raise_bad_state(fmt::format(
        "it is of {}, and this is {}; start as many workers with as many replicas as there were",
        share_text(saved), share_text(here)));
  }
  number_ = state.integer(0, INT64_MAX - 1);
  ended_ = state.flag();
  Restored& restored = restored_.emplace();
  for (int64_t left = state.integer(0, replicas); left > 0; --left) {
    restored.drawn.push_back(state.flag() ? std::optional(state.element()) : std::nullopt);
  }
  while (restored.positions.size() < input_->pipelines.size()) {
    restored.positions.push_back(state.text());
  }
  if (!state.at_end()) data::internal::raise_bad_state("it has more pipelines");
}

const Element& DistributedInputIterator::empty_element() {
  if (empty_) return *empty_;
  if (!spec_) {
    raise(Code::FailedPrecondition,
          "[DistributedIterator] this worker has had no element yet, so the types and shapes of an "
          "empty element are unknown");
  }
  empty_ = data::internal::empty_element(*spec_);
  return *empty_;
}

bool DistributedInputIterator::lacks_empty_element() {
  if (!input_->several_workers() || !walk_ || is_complete()) return false;
  return !capture_status([this] { empty_element(); }).ok();
}

void DistributedInputIterator::learn_empty_element() {
  Message own;  // without payloads, because the tensors have no elements or one
  (void)capture_status([&] {
    const Element& empty = empty_element();
    MessageWriter{own}(to_string(*data::internal::structure_of(empty)),
                       data::internal::tensors_of(empty));
  });
  const std::vector<std::string> all =
      input_->extended->gather_from_workers(own.header, "an empty element");
  const bool of_all = static_cast<int>(all.size()) == input_->context.num_input_pipelines();
  for (size_t worker = 0; of_all && worker < all.size(); ++worker) {
    if (all[worker].empty()) continue;
    const Message received{.header = all[worker]};
    MessageReader reader(received, "an empty element");
    auto structure = data::internal::parse_structure(decode_next<std::string>(reader));
    auto tensors = decode_rest<std::vector<Tensor>>(reader);
    reader.check(tensors.size() == structure->leaves,
                 "its structure has another number of tensors");
    if (!empty_) {
      empty_ = data::internal::ElementAccess::make(std::move(structure), std::move(tensors));
    }
    return;
  }
  raise(Code::FailedPrecondition,
        "[DistributedIterator] a worker has no data, so its element type is unknown: a stage of {} "
        "runs C++ code, and only an element shows what that code makes; give every worker at least "
        "one element",
        input_->pipelines[0].to_string());
}

std::optional<Element> DistributedInputIterator::next() {
  const std::optional<DistributedElement> step = next_step(LastStep::ByRule);
  if (!step) return std::nullopt;
  std::vector<Element> parts;
  for (size_t replica = 0; replica < step->size(); ++replica) parts.push_back((*step)[replica]);
  if (step->knows_global_samples()) parts.emplace_back(step->global_batch_size());
  return Element::tuple(std::move(parts));
}

// As next_step(LastStep::ByRule) finds them.
bool DistributedInputIterator::counts_samples() const {
  if (!input_->several_workers()) return true;
  if (ended_) return false;
  agree();
  return terms_->samples.has_value() || (input_->fills_partial_steps && !terms_->endless);
}

ElementSpec DistributedInputIterator::replica_spec() const {
  const std::lock_guard one_at_a_time(turn_);
  look();
  if (!spec_) input_->walks->raise_undescribed();
  return *spec_;
}

void DistributedInputIterator::look() const {
  if (spec_ || ended_) return;
  begin();
  if (!spec_ && walk_->drawn.empty()) draw_one();
}

// All workers trace the step that they are about to make, so they may agree on the data here.
std::optional<ElementSpec> DistributedInputIterator::find_spec() const {
  const PlainDispatch outside;
  const std::lock_guard one_at_a_time(turn_);
  look();
  const std::optional<ElementSpec> one = spec_;
  if (!one) return std::nullopt;
  const std::vector<TensorSpec> tensors = one->tensors();
  std::vector<TensorSpec> all;
  for (size_t i = 0; i < input_->replicas(); ++i) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  std::vector<data::internal::StructurePtr> parts(input_->replicas(),
                                                  data::internal::structure_of(*one));
  if (counts_samples()) {
    const ElementSpec count(TensorSpec{kInt64, Shape{}});
    all.push_back(count.tensors()[0]);
    parts.push_back(data::internal::structure_of(count));
  }
  return data::internal::make_spec(data::internal::tuple_structure(parts), std::move(all));
}

std::string DistributedInputIterator::describe_dataset() const {
  raise(Code::FailedPrecondition,
        "[DistributedIterator] the input steps of this process's replicas cannot run in another "
        "process; trace a function of the elements instead");
}

DistributedElement DistributedInputIterator::step_of(std::span<const Tensor> tensors) const {
  const auto& structures = data::internal::structure_of(*element_spec())->parts;
  std::vector<std::optional<Element>> elements;
  std::vector<int64_t> counts;
  for (size_t replica = 0; replica < input_->replicas(); ++replica) {
    const data::internal::StructurePtr& structure = structures[replica];
    const std::span<const Tensor> own = tensors.first(structure->leaves);
    tensors = tensors.subspan(structure->leaves);
    elements.push_back(data::internal::ElementAccess::make(
        structure, std::vector<Tensor>(own.begin(), own.end())));
    counts.push_back(sample_count(*elements.back()));
  }
  if (std::ranges::find(counts, Shape::kUnknownDim) != counts.end()) counts.clear();
  return DistributedElement(std::move(elements), is_alone(), std::move(counts),
                            tensors.empty() ? Tensor() : tensors.front());
}

}  // namespace cohort::internal
