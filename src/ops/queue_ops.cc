// The ops of FIFO queues. What an element is made of travels as an attribute: a handle in a graph
// does not know it.

#include "base/raise.h"
#include "ops/fifo_queue.h"
#include "ops/kernel.h"
#include "ops/movable.h"
#include "ops/spec_list.h"

namespace cohort::internal {
namespace {

constexpr AttrList kQueueAttrs{{"queue", AttrKind::Text}, {"components", AttrKind::Ints}};

constexpr DTypeSet kHandleAndElement = kAnyType | kResourceType;
constexpr std::string_view kNoGradient = "a queue's elements have no gradient";

const std::string& queue_name(const Attrs& attrs) { return attrs.get<std::string>("queue"); }

void require_handle(const OpInputs& inputs) {
  if (inputs.dtype(0) == kResource) return;
  raise(Code::InvalidArgument, "[{}] input 0 must be a queue's handle, got {}", inputs.op,
        to_string(inputs.dtype(0)));
}

Specs components_of(const OpInputs& inputs) {
  require_handle(inputs);
  return unpack_specs(inputs.op, inputs.attrs.integers("components"));
}

// The shape of a batch of such tensors.
Shape batch_shape(std::string_view op, const Shape& shape, int64_t count) {
  if (!shape.has_rank()) return shape;
  require_possible_rank(op, shape.rank() + 1);
  return shape.with_inserted(0, count);
}

void require_component(const OpInputs& inputs, size_t component, const Spec& wanted) {
  const DType dtype = inputs.dtype(1 + component);
  const Shape& shape = inputs.shape(1 + component);
  if (dtype == wanted.dtype && shape.is_compatible_with(wanted.shape)) return;
  raise(Code::InvalidArgument, "[{}] tensor {} of queue '{}' is {} {}, got {} {}", inputs.op,
        component, queue_name(inputs.attrs), to_string(wanted.dtype), wanted.shape.to_string(),
        to_string(dtype), shape.to_string());
}

void require_components(const OpInputs& inputs, const Specs& wanted) {
  if (inputs.size() != wanted.size() + 1) {
    raise(Code::InvalidArgument, "[{}] an element of queue '{}' has {} tensors, got {}", inputs.op,
          queue_name(inputs.attrs), wanted.size(), inputs.size() - 1);
  }
  for (size_t i = 0; i < wanted.size(); ++i) require_component(inputs, i, wanted[i]);
}

// The queue behind the handle, which must hold what the op's attributes say.
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

extern constexpr OpDef kQueueHandle{
    .name = "QueueHandle",
    .inputs = 0,
    .dtypes = kResourceType,
    .attrs = {{"capacity", AttrKind::Int},
              {"components", AttrKind::Ints},
              {"container", AttrKind::Text},
              {"shared_name", AttrKind::Text}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const int64_t capacity = inputs.attrs.integer("capacity");
      if (capacity != QueueState::kNoLimit && capacity < 1) {
        raise(Code::InvalidArgument,
              "[Queue] '{}' must hold at least one element, or -1 for no limit; its capacity is {}",
              inputs.attrs.get<std::string>("shared_name"), capacity);
      }
      if (unpack_specs("Queue", inputs.attrs.integers("components")).empty()) {
        raise(Code::InvalidArgument, "[Queue] '{}' needs the dtypes of an element's tensors",
              inputs.attrs.get<std::string>("shared_name"));
      }
      return {{kResource, Shape{}}};
    },
    .compute =
        [](Kernel& k) {
          const auto& name = k.attrs.get<std::string>("shared_name");
          const int64_t capacity = k.attrs.integer("capacity");
          const auto queue = require_run(k.run, "QueueHandle")
                                 .resources()
                                 .find_or_make<QueueState>(
                                     k.attrs.get<std::string>("container"), "queue", name, [&] {
                                       return std::make_shared<QueueState>(
                                           name, capacity, k.attrs.integers("components"));
                                     });
          if (queue->capacity() != capacity) {
            raise(Code::InvalidArgument, "[Queue] '{}' exists with capacity {}, not {}", name,
                  queue->capacity(), capacity);
          }
          k.outputs[0] = make_resource(queue);
        },
    .no_gradient_because = "a handle has no value",
    .traits = Trait::HasEffect | Trait::HostOnly,
};

extern constexpr OpDef kQueueEnqueue{
    .name = "QueueEnqueue",
    .inputs = {1, kAnyNumber},
    .dtypes = kHandleAndElement,
    .attrs = kQueueAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_components(inputs, components_of(inputs));
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          QueueState::Element element(k.inputs.begin() + 1, k.inputs.end());
          queue_of(k).enqueue({std::move(element)}, cancellation_of(k.run));
          set_nothing(k);
        },
    .no_gradient_because = kNoGradient,
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

extern constexpr OpDef kQueueEnqueueMany{
    .name = "QueueEnqueueMany",
    .inputs = {1, kAnyNumber},
    .dtypes = kHandleAndElement,
    .attrs = kQueueAttrs,
    .infer = [](const OpInputs& inputs) -> Specs {
      Specs rows = components_of(inputs);
      for (Spec& spec : rows) spec.shape = batch_shape(inputs.op, spec.shape, Shape::kUnknownDim);
      require_components(inputs, rows);
      for (size_t i = 1; i < inputs.size(); ++i) {
        require_rank_at_least(inputs.op, inputs.shape(i), 1, "a batch for a queue");
      }
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          queue_of(k).enqueue(split_rows(k), cancellation_of(k.run));
          set_nothing(k);
        },
    .no_gradient_because = kNoGradient,
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

extern constexpr OpDef kQueueDequeue{
    .name = "QueueDequeue",
    .inputs = 1,
    .dtypes = kResourceType,
    .attrs = kQueueAttrs,
    .infer = components_of,
    .compute =
        [](Kernel& k) {
          QueueState::Element element =
              std::move(queue_of(k).dequeue(1, cancellation_of(k.run))[0]);
          std::move(element.begin(), element.end(), k.outputs.begin());
        },
    .no_gradient_because = kNoGradient,
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

extern constexpr OpDef kQueueDequeueMany{
    .name = "QueueDequeueMany",
    .inputs = 1,
    .dtypes = kResourceType,
    .attrs = {{"queue", AttrKind::Text}, {"components", AttrKind::Ints}, {"count", AttrKind::Int}},
    .infer = [](const OpInputs& inputs) -> Specs {
      const int64_t count = inputs.attrs.integer("count");
      if (count < 1) {
        raise(Code::InvalidArgument, "[{}] at least 1 element must be taken of queue '{}', not {}",
              inputs.op, queue_name(inputs.attrs), count);
      }
      Specs specs = components_of(inputs);
      require_batchable(inputs, specs);
      for (Spec& spec : specs) spec.shape = batch_shape(inputs.op, spec.shape, count);
      return specs;
    },
    .compute =
        [](Kernel& k) {
          const std::vector<QueueState::Element> elements =
              queue_of(k).dequeue(k.attrs.integer("count"), cancellation_of(k.run));
          for (size_t i = 0; i < k.outputs.size(); ++i) {
            k.outputs[i] = stack_component(elements, i);
          }
        },
    .no_gradient_because = kNoGradient,
    .traits = Trait::HasEffect | Trait::MayWait | Trait::HostOnly,
};

extern constexpr OpDef kQueueSize{
    .name = "QueueSize",
    .inputs = 1,
    .dtypes = kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      return {{kInt64, Shape{}}};
    },
    .compute = [](Kernel& k) { set(k, at::scalar_tensor(queue_of(k).size(), at::kLong)); },
    .no_gradient_because = kNoGradient,
    .traits = Trait::ReadsState | Trait::HostOnly,
};

extern constexpr OpDef kQueueClose{
    .name = "QueueClose",
    .inputs = 1,
    .dtypes = kResourceType,
    .attrs = {{"cancel_pending_enqueues", AttrKind::Bool}},
    .infer = [](const OpInputs& inputs) -> Specs {
      require_handle(inputs);
      return nothing();
    },
    .compute =
        [](Kernel& k) {
          queue_of(k).close(k.attrs.flag("cancel_pending_enqueues"));
          set_nothing(k);
        },
    .no_gradient_because = kNoGradient,
    .traits = Trait::HasEffect | Trait::HostOnly,
};

}  // namespace cohort::internal
