#include "ops/fifo_queue.h"

#include "base/raise.h"
#include "ops/kernel.h"

namespace cohort::internal {

void QueueState::enqueue(std::vector<Element> elements, Cancellation& cancellation) {
  WaitingLine::Place place(enqueuers_, mutex_, cancellation);
  if (closed_) raise(Code::Cancelled, "[Queue] '{}' is closed", name_);
  size_t next = 0;
  const bool finished = place.wait([&] {
    if (cancel_pending_) {
      raise(Code::Cancelled, "[Queue] '{}' was closed while an enqueue waited for room", name_);
    }
    const size_t before = next;
    while (next < elements.size() && has_room()) elements_.push_back(std::move(elements[next++]));
    if (next > before) dequeuers_.wake_first();
    return next == elements.size();
  });
  if (finished) return;
  // A thread that takes from a closed queue may have waited for this one.
  dequeuers_.wake_first();
  cancellation.check();
}

void QueueState::put_back(std::vector<Element>& elements) {
  elements_.insert(elements_.begin(), std::make_move_iterator(elements.begin()),
                   std::make_move_iterator(elements.end()));
}

std::vector<QueueState::Element> QueueState::dequeue(int64_t count, Cancellation& cancellation,
                                                     LongWait wait) {
  const auto wanted = static_cast<size_t>(count);
  std::vector<Element> taken;
  WaitingLine::Place place(dequeuers_, mutex_, cancellation);
  // Elements are taken as they come, so that more may be wanted than there is room for.
  const auto take = [&] {
    while (taken.size() < wanted && !elements_.empty()) {
      taken.push_back(std::move(elements_.front()));
      elements_.pop_front();
      enqueuers_.wake_first();
    }
    if (taken.size() == wanted || !is_finished()) return taken.size() == wanted;
    put_back(taken);
    raise(Code::OutOfRange, "[Queue] '{}' is closed and has {} elements, but {} were asked for",
          name_, elements_.size(), count);
  };
  const auto what = [&] { return fmt::format("[Queue] dequeue from '{}', which is empty", name_); };
  const bool on_purpose = wait == LongWait::IsOnPurpose;
  if (!(on_purpose ? place.wait(take) : place.wait(take, what))) {
    put_back(taken);
    cancellation.check();
  }
  return taken;
}

void QueueState::close(bool cancel_pending) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  cancel_pending_ |= cancel_pending;
  enqueuers_.wake_first();
  dequeuers_.wake_first();
}

// The ops. What an element is made of is an attribute: a handle in a graph does not know
// it.
namespace {

constexpr AttrList kQueueAttrs{{"queue", AttrKind::Text}, {"components", AttrKind::Ints}};

// The first input is the handle. An op that takes one input has no elements among its inputs.
constexpr OpDef queue_op(std::string_view name, InputCount inputs, const AttrList& attrs,
                         Infer infer, Compute compute,
                         Traits traits = Trait::HasEffect | Trait::MayWait) {
  return {.name = name,
          .inputs = inputs,
          .dtypes = inputs.most == 1 ? kResourceType : kAnyType | kResourceType,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .no_gradient_because = "a queue's elements have no gradient",
          .traits = traits | Trait::HostOnly};
}

const std::string& queue_name(const Attrs& attrs) { return attrs.get<std::string>("queue"); }

Specs components_of(const OpInputs& inputs) {
  require_handle(inputs, "a queue's");
  return unpack_specs(inputs.op, inputs.attrs.integers("components"));
}

// The shape of a batch of such tensors.
Shape batch_shape(std::string_view op, const Shape& shape, int64_t count) {
  if (!shape.has_rank()) return shape;
  require_possible_rank(op, shape.rank() + 1);
  return shape.with_inserted(0, count);
}

void require_component(const OpInputs& inputs, size_t component, const Spec& wanted) {
  const Spec given = inputs.spec(1 + component);
  if (given.is_compatible_with(wanted)) return;
  raise(Code::InvalidArgument, "[{}] tensor {} of queue '{}' is {}, got {}", inputs.op, component,
        queue_name(inputs.attrs), wanted.to_string(), given.to_string());
}

void require_components(const OpInputs& inputs, const Specs& wanted) {
  if (inputs.size() != wanted.size() + 1) {
    raise(Code::InvalidArgument, "[{}] an element of queue '{}' has {} tensors, got {}", inputs.op,
          queue_name(inputs.attrs), wanted.size(), inputs.size() - 1);
  }
  for (size_t i = 0; i < wanted.size(); ++i) require_component(inputs, i, wanted[i]);
}

// The queue of the handle. Throws InvalidArgument unless the op was made for its elements.
QueueState& queue_of(const Kernel& k) {
  auto* queue = dynamic_cast<QueueState*>(resource_of(k.inputs[0]).get());
  if (queue == nullptr) raise(Code::InvalidArgument, "[Queue] the handle is not a queue's");
  if (k.attrs.has("components") && queue->components() != k.attrs.integers("components")) {
    raise(Code::InvalidArgument, "[Queue] '{}' holds {}, but the op was made for {}", queue->name(),
          to_string(unpack_specs("Queue", queue->components())),
          to_string(unpack_specs("Queue", k.attrs.integers("components"))));
  }
  return *queue;
}

int64_t common_length(const Kernel& k) {
  const int64_t length = k.inputs[1].shape()[0];
  for (size_t i = 2; i < k.inputs.size(); ++i) {
    const int64_t other = k.inputs[i].shape()[0];
    if (other == length) continue;
    raise(Code::InvalidArgument,
          "[QueueEnqueueMany] tensors 0 and {} for queue '{}' have {} and {} rows", i - 1,
          queue_name(k.attrs), length, other);
  }
  return length;
}

std::vector<QueueState::Element> split_rows(const Kernel& k) {
  std::vector<QueueState::Element> elements(static_cast<size_t>(common_length(k)));
  for (const Tensor& rows : k.inputs.subspan(1)) {
    const at::Tensor moved = movable(rows);
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i].push_back(from_moved(rows, moved.select(0, static_cast<int64_t>(i))));
    }
  }
  return elements;
}

// One tensor out of the tensors at `component` of the elements, which have one shape.
Tensor stack_component(const std::vector<QueueState::Element>& elements, size_t component) {
  std::vector<Tensor> parts;
  for (const QueueState::Element& element : elements) parts.push_back(element[component]);
  const Movables moved = movables(parts);
  return from_moved(moved, at::stack(moved.parts));
}

void require_batchable(const OpInputs& inputs, const Specs& components) {
  for (const Spec& spec : components) {
    if (spec.shape.is_fully_known()) continue;
    raise(Code::InvalidArgument,
          "[{}] batches need elements of one shape, but queue '{}' holds {}; give it the shapes",
          inputs.op, queue_name(inputs.attrs), to_string(components));
  }
}

}  // namespace

extern constexpr OpDef kQueueHandle = handle_op(
    "QueueHandle", {{"capacity", AttrKind::Int}, {"components", AttrKind::Ints}},
    [](const OpInputs& inputs) -> Specs {
      const int64_t capacity = inputs.attrs.integer("capacity");
      if (capacity != QueueState::kNoLimit && capacity < 1) {
        raise(Code::InvalidArgument,
              "[Queue] the capacity of '{}' must be at least 1, or -1 for no limit, got {}",
              inputs.attrs.get<std::string>("shared_name"), capacity);
      }
      if (unpack_specs("Queue", inputs.attrs.integers("components")).empty()) {
        raise(Code::InvalidArgument,
              "[Queue] '{}' needs the components of an element, such as {{{{kFloat32, {{}}}}}}",
              inputs.attrs.get<std::string>("shared_name"));
      }
      return {{kResource, Shape{}}};
    },
    [](Kernel& k) {
      const int64_t capacity = k.attrs.integer("capacity");
      const auto queue =
          find_shared<QueueState>(k, "QueueHandle", "queue", [&](const std::string& name) {
            return std::make_shared<QueueState>(name, capacity, k.attrs.integers("components"));
          });
      if (queue->capacity() != capacity) {
        const auto text = [](int64_t limit) {
          return limit == QueueState::kNoLimit ? "unlimited" : std::to_string(limit);
        };
        raise(Code::InvalidArgument, "[Queue] '{}' already exists with capacity {}, not {}",
              queue->name(), text(queue->capacity()), text(capacity));
      }
      k.outputs[0] = make_resource(queue);
    },
    Trait::HasEffect | Trait::HostOnly);

extern constexpr OpDef kQueueEnqueue = queue_op(
    "QueueEnqueue", {1, kAnyNumber}, kQueueAttrs,
    [](const OpInputs& inputs) -> Specs {
      require_components(inputs, components_of(inputs));
      return nothing();
    },
    [](Kernel& k) {
      QueueState::Element element(k.inputs.begin() + 1, k.inputs.end());
      queue_of(k).enqueue({std::move(element)}, cancellation_of(k.run));
      set_nothing(k);
    });

extern constexpr OpDef kQueueEnqueueMany = queue_op(
    "QueueEnqueueMany", {1, kAnyNumber}, kQueueAttrs,
    [](const OpInputs& inputs) -> Specs {
      Specs rows = components_of(inputs);
      for (Spec& spec : rows) spec.shape = batch_shape(inputs.op, spec.shape, Shape::kUnknownDim);
      require_components(inputs, rows);
      for (size_t i = 1; i < inputs.size(); ++i) {
        require_rank_at_least(inputs.op, inputs.shape(i), 1, "a batch for a queue");
      }
      return nothing();
    },
    [](Kernel& k) {
      queue_of(k).enqueue(split_rows(k), cancellation_of(k.run));
      set_nothing(k);
    });

extern constexpr OpDef kQueueDequeue =
    queue_op("QueueDequeue", 1, kQueueAttrs, components_of, [](Kernel& k) {
      QueueState::Element element = std::move(queue_of(k).dequeue(1, cancellation_of(k.run))[0]);
      std::move(element.begin(), element.end(), k.outputs.begin());
    });

extern constexpr OpDef kQueueDequeueMany = queue_op(
    "QueueDequeueMany", 1, kQueueAttrs + AttrList{{"count", AttrKind::Int}},
    [](const OpInputs& inputs) -> Specs {
      const int64_t count = inputs.attrs.integer("count");
      if (count < 1) {
        raise(Code::InvalidArgument,
              "[{}] at least 1 element must be taken from queue '{}', got {}", inputs.op,
              queue_name(inputs.attrs), count);
      }
      Specs specs = components_of(inputs);
      require_batchable(inputs, specs);
      for (Spec& spec : specs) spec.shape = batch_shape(inputs.op, spec.shape, count);
      return specs;
    },
    [](Kernel& k) {
      const std::vector<QueueState::Element> elements =
          queue_of(k).dequeue(k.attrs.integer("count"), cancellation_of(k.run));
      for (size_t i = 0; i < k.outputs.size(); ++i) k.outputs[i] = stack_component(elements, i);
    });

extern constexpr OpDef kQueueSize = queue_op(
    "QueueSize", 1, {},
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "a queue's");
      return {{kInt64, Shape{}}};
    },
    [](Kernel& k) { set(k, at::scalar_tensor(queue_of(k).size(), at::kLong)); }, Trait::ReadsState);

extern constexpr OpDef kQueueClose = queue_op(
    "QueueClose", 1, {{"cancel_pending_enqueues", AttrKind::Bool}},
    [](const OpInputs& inputs) -> Specs {
      require_handle(inputs, "a queue's");
      return nothing();
    },
    [](Kernel& k) {
      queue_of(k).close(k.attrs.flag("cancel_pending_enqueues"));
      set_nothing(k);
    },
    Trait::HasEffect);

}  // namespace cohort::internal
