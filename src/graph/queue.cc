#include "cohort/queue.h"

#include "base/raise.h"
#include "graph/handles.h"
#include "ops/all_ops.h"
#include "ops/spec_list.h"

namespace cohort {
namespace internal {
namespace {

std::vector<int64_t> packed_components(const FifoQueueOptions& options) {
  if (!options.shapes.empty() && options.shapes.size() != options.dtypes.size()) {
    raise(Code::InvalidArgument, "[Queue] '{}' has {} dtypes but {} shapes", options.name,
          options.dtypes.size(), options.shapes.size());
  }
  Specs specs;
  for (size_t i = 0; i < options.dtypes.size(); ++i) {
    specs.push_back(
        {options.dtypes[i], options.shapes.empty() ? Shape::unknown() : options.shapes[i]});
  }
  return pack_specs(specs);
}

std::vector<Tensor> with_handle(const Tensor& handle, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> inputs{handle};
  inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  return inputs;
}

}  // namespace
}  // namespace internal

using internal::apply;
using internal::apply_many;
using internal::Attrs;

FifoQueue::FifoQueue(const FifoQueueOptions& options, Site site)
    : components_(internal::packed_components(options)) {
  internal::NamedHandle made =
      internal::add_handle(internal::kQueueHandle, options.name, options.shared_name,
                           {{"capacity", options.capacity}, {"components", components_}}, site);
  name_ = std::move(made.state);
  handle_ = std::move(made.handle);
}

Tensor FifoQueue::enqueue(const std::vector<Tensor>& element, Site site) {
  return apply(internal::kQueueEnqueue, internal::with_handle(handle_, element),
               {{"queue", name_}, {"components", components_}}, site);
}

Tensor FifoQueue::enqueue_many(const std::vector<Tensor>& rows, Site site) {
  return apply(internal::kQueueEnqueueMany, internal::with_handle(handle_, rows),
               {{"queue", name_}, {"components", components_}}, site);
}

std::vector<Tensor> FifoQueue::dequeue(Site site) {
  return apply_many(internal::kQueueDequeue, {&handle_, 1},
                    {{"queue", name_}, {"components", components_}}, site);
}

std::vector<Tensor> FifoQueue::dequeue_many(int64_t count, Site site) {
  return apply_many(internal::kQueueDequeueMany, {&handle_, 1},
                    {{"queue", name_}, {"components", components_}, {"count", count}}, site);
}

Tensor FifoQueue::size(Site site) {
  return internal::keep_question(internal::kQueueSize, handle_, site);
}

Tensor FifoQueue::close(const QueueCloseOptions& options, Site site) {
  return apply(internal::kQueueClose, {handle_},
               {{"cancel_pending_enqueues", options.cancel_pending_enqueues}}, site);
}

}  // namespace cohort
