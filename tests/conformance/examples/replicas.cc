// Ops that meet other replicas. Outside of a strategy there is one, which gets what it gives; with
// several they are tested beside the strategies.

#include "conformance/examples/graph.h"
#include "ops/replica_port.h"

namespace cohort::testing {
namespace {

OpExample all_reduce(ReduceOp op) {
  return {.op = "ReplicaAllReduce",
          .inputs = {Tensor({{1.0, 2.0}, {3.0, 4.0}}), Tensor({5.0})},
          .call = [op](In in) { return internal::replica_all_reduce(op, in, {}); },
          .torch = [](const std::vector<at::Tensor>& in) { return in; },
          .more_inputs = {{Tensor(2.5)}, {zeros({0, 3}, kFloat64)}}};
}

}  // namespace

std::vector<OpExample> replica_examples() {
  const Tensor matrix({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  const auto attrs = [](int64_t op, int64_t replicas) {
    return Attrs{{"op", op},
                 {"replicas", replicas},
                 {"bytes_per_pack", int64_t{0}},
                 {"timeout", 1.0},
                 {"implementation", int64_t{0}}};
  };
  OpExample sum = all_reduce(ReduceOp::Sum);
  sum.bad_calls = {bad("ReplicaAllReduce", {matrix}, attrs(5, 1), "no reduction number 5"),
                   bad("ReplicaAllReduce", {matrix}, attrs(0, 2), "traced in one of 2 replicas",
                       Code::FailedPrecondition),
                   {[] {
                      const Tensor text("a");
                      internal::replica_all_reduce(ReduceOp::Sum, {&text, 1}, {});
                    },
                    "string"}};
  return {
      sum,
      all_reduce(ReduceOp::Mean),
      all_reduce(ReduceOp::Min),
      all_reduce(ReduceOp::Max),
      all_reduce(ReduceOp::Product),
      {.op = "ReplicaAllGather",
       .inputs = {matrix},
       .call = [](In in) { return Tensors{internal::replica_all_gather(in[0], 0, {})}; },
       .torch = [](const std::vector<at::Tensor>& in) { return in; },
       .more_inputs = {{Tensor({1.0})}, {zeros({0, 2}, kFloat64)}},
       .bad_calls =
           {{[=] { internal::replica_all_gather(matrix, 2, {}); }, "axis 2 is outside of 0 to 1"},
            {[=] { internal::replica_all_gather(matrix, -1, {}); }, "axis -1 is outside of 0 to 1"},
            {[] { internal::replica_all_gather(Tensor(1.0), 0, {}); }, "at least 1 dimension"}}}};
}

}  // namespace cohort::testing
