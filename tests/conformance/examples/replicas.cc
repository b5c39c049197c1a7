// Ops that meet other replicas or workers. Outside of a strategy there is one, which gets what it
// gives; with several they are tested beside the strategies.

#include "conformance/examples/graph.h"
#include "ops/collective_ports.h"

namespace cohort::testing {
namespace {

OpExample all_reduce(ReduceOp op) {
  return {.op = "ReplicaAllReduce",
          .inputs = {Tensor({{1.0, 2.0}, {3.0, 4.0}}), Tensor({5.0})},
          .call = [op](In in) { return internal::replica_all_reduce(op, in, {}); },
          .torch = [](const std::vector<at::Tensor>& in) { return in; },
          .more_inputs = {{Tensor(2.5)}, {zeros({0, 3}, kFloat64)}}};
}

Attrs of_port(int64_t port) {
  return Attrs{{"port", port},
               {"bytes_per_pack", int64_t{0}},
               {"timeout", int64_t{1'000'000'000}},
               {"implementation", int64_t{0}},
               {"what", std::string("numbers")},
               {"file", std::string("program.cc")},
               {"line", int64_t{1}}};
}

Attrs reduction(int64_t op, int64_t port) {
  Attrs attrs = of_port(port);
  attrs.set("op", op);
  return attrs;
}

std::vector<OpExample> worker_examples(const Tensor& matrix) {
  using internal::kNoWorkerPort;
  const auto same = [](const std::vector<at::Tensor>& in) { return in; };
  return {
      {.op = "WorkerAllReduce",
       .inputs = {matrix, Tensor({5.0})},
       .call =
           [](In in) { return internal::worker_all_reduce(kNoWorkerPort, ReduceOp::Max, in, {}); },
       .torch = same,
       .more_inputs = {{Tensor(2.5)}, {zeros({0, 3}, kFloat64)}},
       .bad_calls = {bad("WorkerAllReduce", {matrix}, reduction(5, 0), "5 is not a ReduceOp"),
                     bad("WorkerAllReduce", {matrix}, reduction(1, 0), "then divide"),
                     bad("WorkerAllReduce", {matrix}, reduction(0, 7),
                         "has ended or belongs to another process", Code::FailedPrecondition)}},
      {.op = "WorkerAllGather",
       .inputs = {matrix},
       .call =
           [](In in) { return Tensors{internal::worker_all_gather(kNoWorkerPort, in[0], 0, {})}; },
       .torch = same,
       .more_inputs = {{Tensor({1.0})}, {zeros({0, 2}, kFloat64)}},
       .bad_calls = {{[=] { internal::worker_all_gather(kNoWorkerPort, matrix, 2, {}); },
                      "axis 2 is outside of 0 to 1"},
                     {[] { internal::worker_all_gather(kNoWorkerPort, Tensor(1.0), 0, {}); },
                      "at least 1 dimension"}}},
      {.op = "WorkerBroadcast",
       .inputs = {matrix},
       .call = [](In in) { return Tensors{internal::worker_broadcast(kNoWorkerPort, in[0], {})}; },
       .torch = same,
       .more_inputs = {{Tensor(1.0)}, {zeros({0, 2}, kFloat64)}},
       .bad_calls = {bad("WorkerBroadcast", {matrix}, of_port(7),
                         "has ended or belongs to another process", Code::FailedPrecondition)}}};
}

}  // namespace

std::vector<OpExample> replica_examples() {
  const Tensor matrix({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  const auto attrs = [](int64_t op, int64_t replicas) {
    return Attrs{{"op", op},
                 {"replicas", replicas},
                 {"bytes_per_pack", int64_t{0}},
                 {"timeout", int64_t{1'000'000'000}},
                 {"implementation", int64_t{0}},
                 {"what", std::string("numbers")},
                 {"file", std::string("program.cc")},
                 {"line", int64_t{1}}};
  };
  OpExample sum = all_reduce(ReduceOp::Sum);
  sum.bad_calls = {bad("ReplicaAllReduce", {matrix}, attrs(5, 1), "5 is not a ReduceOp"),
                   bad("ReplicaAllReduce", {matrix}, attrs(0, 2), "traced for 2 replicas",
                       Code::FailedPrecondition),
                   {[] {
                      const Tensor text("a");
                      internal::replica_all_reduce(ReduceOp::Sum, {&text, 1}, {});
                    },
                    "string"}};
  std::vector<OpExample> examples{
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
  for (OpExample& example : worker_examples(matrix)) examples.push_back(std::move(example));
  return examples;
}

}  // namespace cohort::testing
