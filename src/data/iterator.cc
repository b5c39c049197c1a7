#include "data/iterator.h"

#include <atomic>

#include "base/timeline.h"
#include "cohort/dataset.h"
#include "data/element_loop.h"
#include "ops/infer.h"
#include "ops/run_context.h"

namespace cohort::data {
namespace internal {
namespace {

std::string next_name() {
  static std::atomic<int64_t> made{0};
  return fmt::format("iterator_{}", made.fetch_add(1, std::memory_order_relaxed));
}

constexpr const char* kNoElement = "[Iterator] value() was read, but the dataset has ended";

// Returns an element whose tensors throw if a run reads them and has_value is false.
Element required_element(const StructurePtr& structure, std::vector<Tensor> tensors,
                         const Tensor& has_value) {
  for (Tensor& tensor : tensors) {
    tensor = cohort::internal::require_true(tensor, has_value, kNoElement);
  }
  return ElementAccess::make(structure, std::move(tensors));
}

}  // namespace

IteratorBase::IteratorBase(std::string name)
    : name_(name.empty() ? next_name() : std::move(name)) {}

const IteratorBase::Known& IteratorBase::known() const {
  known_once_.call([&] {
    known_.spec = find_spec();
    if (known_.spec) {
      known_.layout = {to_string(*structure_of(*known_.spec)), packed_tensors(*known_.spec)};
    }
    known_.kind =
        "Iterator over " + (known_.spec ? known_.spec->to_string() : "elements of any kind");
    if (replicas() > 1) known_.kind += fmt::format(" for {} replicas", replicas());
  });
  return known_;
}

const ElementLayout& IteratorBase::layout() const {
  if (!known().spec) {
    raise(Code::FailedPrecondition,
          "[Iterator] the dataset of '{}' is empty, so the types of its elements are unknown; its "
          "next() cannot be part of a traced function",
          name_);
  }
  return known().layout;
}

std::optional<std::vector<Tensor>> IteratorBase::next_tensors() {
  std::optional<Element> element = next();
  if (!element) return std::nullopt;
  return std::move(ElementAccess::tensors(*element));
}

LocalIterator::LocalIterator(NodePtr node, std::string name, std::shared_ptr<Iteration> iteration,
                             bool looks)
    : IteratorBase(std::move(name)), node_(std::move(node)) {
  cursor_ = node_->open({.stop = stop_.get_token(),
                         .iteration = std::move(iteration),
                         .options = node_->options(),
                         .looks = looks});
}

LocalIterator::~LocalIterator() {
  stop_.request_stop();
  cursor_.reset();
}

std::optional<Element> LocalIterator::next() {
  // Functions of stages compute values even if this thread builds a graph or has a tape.
  const cohort::internal::PlainDispatch outside;
  std::optional<cohort::internal::TimelineSpan> span;
  if (!is_driven_ && cohort::internal::timeline_is_on()) span.emplace("input", "input");
  const std::lock_guard one_at_a_time(turn_);
  if (seen_) return std::exchange(seen_, std::nullopt);
  Element element;
  if (!cursor_->next(element)) return std::nullopt;
  return element;
}

std::string LocalIterator::save() {
  const std::lock_guard one_at_a_time(turn_);
  StateWriter position;
  PositionFields fields(position);
  visit_position(fields);
  return sealed(position);
}

void LocalIterator::restore(std::string_view position) {
  StateReader state(unsealed(position));
  PositionFields fields(state);
  const std::lock_guard one_at_a_time(turn_);
  visit_position(fields);
  if (!state.at_end()) raise_bad_state("the position has more stages");
}

void LocalIterator::visit_position(PositionFields& fields) {
  fields.element(seen_);
  cursor_->position(fields);
}

std::optional<ElementSpec> LocalIterator::find_spec() const {
  if (std::optional<ElementSpec> known = node_->spec()) return known;
  const cohort::internal::PlainDispatch outside;
  const std::lock_guard one_at_a_time(turn_);
  Element element;
  if (!seen_ && cursor_->next(element)) seen_ = std::move(element);
  if (!seen_) return std::nullopt;
  return with_unknown_rows(ElementSpec(*seen_));
}

std::string LocalIterator::describe_dataset() const {
  return DatasetAccess::make(node_).serialize();
}

std::optional<Element> look_at_first(const Dataset& dataset) {
  LocalIterator look(DatasetAccess::node(dataset), {}, std::make_shared<Iteration>(0), true);
  look.set_driven();
  return look.next();
}

std::optional<ElementSpec> spec_or_probe(const Dataset& dataset) {
  if (std::optional<ElementSpec> spec = dataset.element_spec()) return spec;
  const std::optional<Element> first = look_at_first(dataset);
  if (!first) return std::nullopt;
  return with_unknown_rows(ElementSpec(*first));
}

Iterator iterate_as(const Dataset& dataset, int64_t number, CachedPasses cached_passes,
                    const std::string* position) {
  auto iterator = std::make_shared<LocalIterator>(
      DatasetAccess::node(dataset), std::string(),
      std::make_shared<Iteration>(number, std::move(cached_passes)));
  iterator->set_driven();
  if (position != nullptr) iterator->restore(*position);
  return cohort::internal::Access::make<Iterator>(std::move(iterator));
}

std::shared_ptr<cohort::internal::ElementSource> WalkStarter::make_source() {
  {
    const std::lock_guard lock(mutex_);
    if (first_) return std::exchange(first_, nullptr);
  }
  const cohort::internal::PlainDispatch outside;
  return make_();
}

Tensor started_in_each_call(std::shared_ptr<IteratorBase> first, WalkStarter::Make make) {
  const auto starter = std::make_shared<WalkStarter>(std::move(first), std::move(make));
  return cohort::internal::start_iterator(cohort::internal::make_resource(starter), {});
}

}  // namespace internal

Iterator::Iterator(std::shared_ptr<internal::IteratorBase> base)
    : base_(std::move(base)), handle_(cohort::internal::make_resource(base_)) {}

Element Iterator::next(Site site) {
  if (handle_.is_symbolic() || cohort::internal::is_tracing()) {
    std::vector<Element> parts;
    while (parts.size() < base_->replicas()) {
      parts.push_back(internal::ElementAccess::make(
          internal::structure_of(*base_->element_spec()),
          cohort::internal::iterator_next(handle_, base_->layout(), site)));
    }
    return parts.size() == 1 ? parts[0] : internal::dealt_element(parts);
  }
  std::optional<Element> element = base_->next();
  if (!element) internal::raise(Code::OutOfRange, "[Iterator] the dataset has no more elements");
  return *std::move(element);
}

std::optional<Element> Iterator::next_optional() {
  if (handle_.is_symbolic() || cohort::internal::is_tracing()) {
    internal::raise(
        Code::FailedPrecondition,
        "[Iterator] next_optional() and range-for over a dataset cannot be part of a traced "
        "function: the end of the data is unknown during tracing; call next_as_optional(), "
        "reduce() or for_each() of the iterator, or iterate outside and pass the elements");
  }
  return base_->next();
}

OptionalElement<Element> Iterator::next_as_optional(Site site) {
  if (!handle_.is_symbolic() && !cohort::internal::is_tracing()) {
    std::optional<Element> element = base_->next();
    const Tensor has_value(element.has_value());
    return {has_value, [element = std::move(element)] {
              if (!element) internal::raise(Code::InvalidArgument, internal::kNoElement);
              return *element;
            }};
  }
  std::vector<std::vector<Tensor>> parts;  // one element for each replica
  Tensor has_value(true);
  while (parts.size() < base_->replicas()) {
    parts.push_back(cohort::internal::iterator_next_optional(handle_, base_->layout(), site));
    const Tensor& found = parts.back()[0];
    has_value = parts.size() == 1 ? found : logical_and(has_value, found, site);
  }
  return {has_value, [parts = std::move(parts), has_value, base = base_] {
            std::vector<Element> elements;
            for (const std::vector<Tensor>& part : parts) {
              elements.push_back(
                  internal::required_element(internal::structure_of(*base->element_spec()),
                                             {part.begin() + 1, part.end()}, has_value));
            }
            return elements.size() == 1 ? elements[0] : internal::dealt_element(elements);
          }};
}

std::vector<Tensor> Iterator::reduce(const std::vector<Tensor>& initial, const LoopBody& body,
                                     Site site) {
  return internal::loop_over(*this, initial, body, site);
}

Tensor Iterator::for_each(const std::function<void(const Element&)>& body, Site site) {
  return internal::count_over(*this, body, site);
}

std::optional<ElementSpec> Iterator::element_spec() const { return base_->element_spec(); }

std::string Iterator::save() { return base_->save(); }

std::string Iterator::kind() const { return base_->kind(); }

ElementIterator::ElementIterator(Iterator from) : from_(std::move(from)) { ++*this; }

ElementIterator& ElementIterator::operator++() {
  current_ = from_.next_optional();
  return *this;
}

Iterator Dataset::iterator() const {
  const auto make = [node = node_] { return std::make_shared<internal::LocalIterator>(node); };
  const std::shared_ptr<internal::LocalIterator> first = make();
  if (!cohort::internal::is_tracing()) return cohort::internal::Access::make<Iterator>(first);
  return cohort::internal::Access::with_handle(cohort::internal::Access::make<Iterator>(first),
                                               internal::started_in_each_call(first, make));
}

Iterator Dataset::iterator(const std::string& position) const {
  auto iterator = std::make_shared<internal::LocalIterator>(node_);
  iterator->restore(position);
  return cohort::internal::Access::make<Iterator>(std::move(iterator));
}

}  // namespace cohort::data

namespace cohort::data::internal {
namespace {

using cohort::internal::Kernel;
using cohort::internal::OpInputs;
using cohort::internal::Specs;

const Tensor& dataset_of(const cohort::internal::Attrs& attrs) {
  return attrs.get<Tensor>("dataset");
}

// An iterator that keeps the description of its dataset.
class NamedIterator : public LocalIterator {
 public:
  NamedIterator(std::string name, Tensor description)
      : LocalIterator(
            DatasetAccess::node(Dataset::deserialize(cohort::internal::strings(description)[0])),
            std::move(name)),
        description_(std::move(description)) {}

  std::string describe_dataset() const override {
    return cohort::internal::strings(description_)[0];
  }
  // A node calls this in each run with the same tensor, which the first comparison recognizes.
  bool is_over(const Tensor& description) const {
    using cohort::internal::TensorAccess;
    return TensorAccess::id(description) == TensorAccess::id(description_) ||
           cohort::internal::strings(description) == cohort::internal::strings(description_);
  }

 private:
  const Tensor description_;
};

Specs infer_handle(const OpInputs& inputs) {
  const Tensor& dataset = dataset_of(inputs.attrs);
  if (dataset.dtype() != kString || dataset.shape() != Shape{}) {
    raise(Code::InvalidArgument, "[{}] a dataset's description must be one string, got {} {}",
          inputs.op, to_string(dataset.dtype()), dataset.shape().to_string());
  }
  return {{kResource, Shape{}}};
}

// Errors say that the input pipeline failed, and have the original error as their cause.
std::shared_ptr<NamedIterator> make(const std::string& name, const Tensor& dataset) {
  std::shared_ptr<NamedIterator> made;
  const Status status =
      capture_status([&] { made = std::make_shared<NamedIterator>(name, dataset); });
  if (status.ok()) return made;
  throw Error(Status{
      .code = status.code,
      .message = fmt::format("[Input] iterator '{}' cannot be created: {}", name, status.message),
      .origin = status.origin,
      .cause = std::make_shared<const Status>(status)});
}

void compute_handle(Kernel& k) {
  const Tensor& dataset = dataset_of(k.attrs);
  const auto iterator = cohort::internal::find_shared<NamedIterator>(
      k, "IteratorHandle", "iterator",
      [&](const std::string& name) { return make(name, dataset); });
  if (!iterator->is_over(dataset)) {
    raise(Code::InvalidArgument,
          "[Iterator] '{}' already exists over another dataset; give this iterator another name",
          iterator->name());
  }
  k.outputs[0] = cohort::internal::make_resource(iterator);
}

}  // namespace
}  // namespace cohort::data::internal

namespace cohort::internal {

// The handle of a named iterator of the run's device. The first use makes the iterator.
extern constexpr OpDef kIteratorHandle =
    handle_op("IteratorHandle", {{"dataset", AttrKind::Tensor}}, data::internal::infer_handle,
              data::internal::compute_handle, Trait::HasEffect | Trait::HostOnly);

}  // namespace cohort::internal
