// Examples of the ops of queues and accumulators, on state that is made for each call.

#include "conformance/examples/graph.h"
#include "ops/conditional_accumulator.h"
#include "ops/fifo_queue.h"
#include "ops/op.h"
#include "ops/variable_cell.h"

namespace cohort::testing {
namespace {

using internal::Specs;

Attrs queue_attrs(const Specs& components) {
  return {{"queue", std::string("q")}, {"components", internal::pack_specs(components)}};
}

Tensor queue_handle(const Specs& components, const std::vector<Tensors>& elements = {}) {
  const auto queue = std::make_shared<internal::QueueState>("q", internal::QueueState::kNoLimit,
                                                            internal::pack_specs(components));
  queue->enqueue(elements, internal::cancellation_of(nullptr));
  return internal::make_resource(queue);
}

Tensor numbers_handle(const std::vector<Tensors>& elements = {}) {
  return queue_handle({{kInt64, {}}}, elements);
}

Tensor register_handle() {
  return internal::make_resource(
      std::make_shared<internal::VariableCell>("absent", Tensor({int64_t{0}, int64_t{0}})));
}

Tensor dense_handle(const std::vector<Tensor>& gradients = {}) {
  const auto made = std::make_shared<internal::DenseAccumulator>(
      "a", internal::Accumulator::Kind{kFloat32, {2}, true});
  for (const Tensor& gradient : gradients) made->apply(gradient, 0);
  return internal::make_resource(made);
}

Tensor sparse_handle(bool filled) {
  const auto made = std::make_shared<internal::SparseAccumulator>(
      "a", internal::Accumulator::Kind{kFloat32, {4, 2}, true});
  if (filled) made->apply(Tensor({{1.f, 2.f}}), Tensor({int64_t{3}}), 0);
  return internal::make_resource(made);
}

}  // namespace

std::vector<OpExample> queue_examples() {
  const Specs components{{kFloat32, {2}}, {kString, {}}};
  const Tensors element{Tensor({1.f, 2.f}), Tensor("a")};
  const Tensors rows{Tensor({{1.f, 2.f}, {3.f, 4.f}}), Tensor({"a", "b"})};
  const Attrs attrs = queue_attrs(components);
  Attrs two = attrs;
  two.set("count", int64_t{2});
  Attrs none = attrs;
  none.set("count", int64_t{0});
  Attrs any = queue_attrs({{kFloat32, Shape::unknown()}});
  any.set("count", int64_t{2});
  const Attrs handle{{"capacity", int64_t{4}},
                     {"components", internal::pack_specs(components)},
                     {"container", std::string("localhost")},
                     {"shared_name", std::string("q")}};
  const Tensor number(1.f);
  return {
      adding("QueueHandle", {}, handle,
             {bad("QueueHandle", {}, handle, "[QueueHandle]", Code::FailedPrecondition)}),
      calling("QueueEnqueue",
              [=](In) {
                return apply_op("QueueEnqueue", {queue_handle(components), element[0], element[1]},
                                attrs);
              },
              {bad("QueueEnqueue", {number, element[0], element[1]}, attrs, "a queue's handle"),
               bad("QueueEnqueue", {queue_handle(components), number}, attrs, "'q' has 2 tensors"),
               bad("QueueEnqueue", {queue_handle(components), number, element[1]}, attrs,
                   "tensor 0 of queue 'q' is float32 (2,), got float32 ()"),
               bad("QueueEnqueue", {queue_handle({}), element[0], element[1]}, attrs,
                   "'q' holds (), but the op was made for (float32 (2,), string ())")}),
      calling("QueueEnqueueMany",
              [=](In) {
                return apply_op("QueueEnqueueMany", {queue_handle(components), rows[0], rows[1]},
                                attrs);
              },
              {bad("QueueEnqueueMany", {queue_handle(components), rows[0], element[1]}, attrs,
                   "tensor 1 of queue 'q'"),
               bad("QueueEnqueueMany", {queue_handle(components), rows[0], Tensor({"a", "b", "c"})},
                   attrs, "for queue 'q' have 2 and 3 rows")}),
      calling("QueueDequeue",
              [=](In) {
                return apply_op("QueueDequeue", {queue_handle(components, {element})}, attrs);
              },
              {bad("QueueDequeue", {queue_handle({{kInt64, {}}})}, attrs, "'q' holds (int64 ())")}),
      calling("QueueDequeueMany",
              [=](In) {
                return apply_op("QueueDequeueMany", {queue_handle(components, {element, element})},
                                two);
              },
              {bad("QueueDequeueMany", {queue_handle(components)}, none, "at least 1 element"),
               bad("QueueDequeueMany", {queue_handle(components)}, any, "give it the shapes")}),
      calling("QueueSize",
              [=](In) { return apply_op("QueueSize", {queue_handle(components)}, {}); },
              {bad("QueueSize", {internal::make_resource(std::make_shared<internal::Resource>())},
                   {}, "not a queue's")}),
      calling("QueueClose",
              [=](In) {
                return apply_op("QueueClose", {queue_handle(components)},
                                {{"cancel_pending_enqueues", true}});
              }),
      calling(
          "HoldPresence",
          [=](In) {
            return apply_op("HoldPresence",
                            {numbers_handle({{Tensor(int64_t{1})}}), register_handle(),
                             numbers_handle(), numbers_handle(), Tensor(int64_t{0})},
                            {});
          },
          {bad("HoldPresence",
               {Tensor(1), register_handle(), numbers_handle(), numbers_handle(),
                Tensor(int64_t{0})},
               {}, "input 0 must be a handle"),
           bad("HoldPresence",
               {numbers_handle(), register_handle(), queue_handle(components), numbers_handle(),
                Tensor(int64_t{0})},
               {}, "input 2 must be a queue of int64 scalars"),
           bad("HoldPresence",
               {numbers_handle(), register_handle(), numbers_handle(), numbers_handle(), Tensor(1)},
               {}, "the number must be one int64")}),
  };
}

std::vector<OpExample> accumulator_examples() {
  const Tensor gradient({1.f, 2.f});
  const Tensor rows({{1.f, 2.f}});
  const Tensor indices({int64_t{3}});
  const Tensor step(int64_t{0});
  const Attrs dense{{"dtype", kFloat32}, {"shape", Shape{2}}};
  const Attrs sparse{{"dtype", kFloat32}, {"shape", Shape{4, 2}}};
  Attrs dense_apply = dense;
  dense_apply.set("accumulator", std::string("a"));
  Attrs sparse_apply = sparse;
  sparse_apply.set("accumulator", std::string("a"));
  Attrs handle = dense;
  handle.set("mean", true);
  handle.set("sparse", true);
  handle.set("container", std::string("localhost"));
  handle.set("shared_name", std::string("a"));
  return {
      adding(
          "AccumulatorHandle", {}, handle,
          {bad("AccumulatorHandle", {}, handle, "[AccumulatorHandle]", Code::FailedPrecondition)}),
      calling("AccumulatorApply",
              [=](In) {
                return apply_op("AccumulatorApply", {dense_handle(), gradient, step}, dense_apply);
              },
              {bad("AccumulatorApply", {gradient, gradient, step}, dense_apply, "handle"),
               bad("AccumulatorApply", {dense_handle(), rows, step}, dense_apply,
                   "accumulator 'a' takes float32 (2,), got float32 (1, 2)"),
               bad("AccumulatorApply", {dense_handle(), gradient, gradient}, dense_apply,
                   "the local step"),
               bad("AccumulatorApply", {sparse_handle(false), gradient, step}, dense_apply,
                   "accumulator is of another kind")}),
      calling("AccumulatorTake",
              [=](In) {
                return apply_op("AccumulatorTake", {dense_handle({gradient}), Tensor(1)}, dense);
              },
              {bad("AccumulatorTake", {dense_handle(), Tensor(0)}, dense, "at least 1 gradient"),
               bad("AccumulatorTake", {dense_handle(), Tensor(1)},
                   {{"dtype", kFloat64}, {"shape", Shape{2}}}, "made for float64")}),
      calling("AccumulatorSetStep",
              [=](In) {
                return apply_op("AccumulatorSetStep", {dense_handle(), step}, {});
              },
              {bad("AccumulatorSetStep", {dense_handle(), gradient}, {}, "the step")}),
      calling("AccumulatorLimit",
              [=](In) {
                return apply_op("AccumulatorLimit", {dense_handle(), Tensor(2)}, {});
              },
              {bad("AccumulatorLimit", {dense_handle(), gradient}, {}, "the limit"),
               bad("AccumulatorLimit", {gradient, Tensor(2)}, {}, "handle")}),
      calling("AccumulatorCancelTakes",
              [](In) { return apply_op("AccumulatorCancelTakes", {dense_handle()}, {}); }),
      calling("AccumulatorCount",
              [](In) { return apply_op("AccumulatorCount", {sparse_handle(true)}, {}); }),
      calling(
          "SparseAccumulatorApply",
          [=](In) {
            return apply_op("SparseAccumulatorApply", {sparse_handle(false), rows, indices, step},
                            sparse_apply);
          },
          {bad("SparseAccumulatorApply", {sparse_handle(false), rows, rows, step}, sparse_apply,
               "the indices must be integers"),
           bad("SparseAccumulatorApply", {sparse_handle(false), gradient, indices, step},
               sparse_apply, "accumulator 'a' takes float32 (None, 2)"),
           bad("SparseAccumulatorApply", {sparse_handle(false), rows, Tensor({int64_t{4}}), step},
               sparse_apply, "index 4 is not a row of 'a'")}),
      calling("SparseAccumulatorTake",
              [=](In) {
                return apply_op("SparseAccumulatorTake", {sparse_handle(true), Tensor(1)}, sparse);
              }),
  };
}

}  // namespace cohort::testing
