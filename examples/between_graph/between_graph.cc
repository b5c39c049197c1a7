// Between-graph replication: every worker runs this program, builds its own graph of one tower, and
// opens a session on its own server. Variables on the ps tasks are shared by their names. Workers
// do not wait for each other. See README.md.

#include <thread>

#include "../fashion_cluster.h"

using namespace fashion;

// The worker's share of the examples: every workers-th, from its own number on.
data::Dataset share_of(const Examples& examples, const Options& options) {
  const auto workers = static_cast<int64_t>(options.workers.size());
  return data::from_tensor_slices(examples.images, examples.labels)
      .shard(workers, options.task)
      .shuffle(20'000)
      .batch(options.batch / workers);
}

// Variables go to the ps tasks in turn, everything else to this worker.
DeviceFunction placement(const Options& options) {
  const auto next = std::make_shared<size_t>(0);
  return [options, next](const DeviceRequest& node) {
    if (node.op != "VariableHandle") return "/job:worker/task:" + std::to_string(options.task);
    return "/job:ps/task:" + std::to_string((*next)++ % options.ps.size());
  };
}

// The chief gives the variables their first values, the others wait for that.
void prepare(Session& session, const Options& options, const Tensor& initialize,
             const std::vector<Tensor>& variables) {
  if (options.task == 0) session.run(initialize);
  for (int tries = 0;; ++tries) {
    const Status status = capture_status([&] { session.run(variables); });
    if (status.code != Code::FailedPrecondition || tries == 600) return throw_if_error(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void train(const Options& options, Server& server) {
  const Examples examples(options.data, "train"), unseen(options.data, "t10k");
  random::set_seed(1);

  Graph graph;
  auto building = graph.as_default();
  auto on = device(placement(options));
  const Model model;
  const Tensor images = placeholder(kUInt8, {-1, 784}), labels = placeholder(kUInt8, {-1});
  const Tensor logits = model(images);
  const Tensor loss = nn::softmax_cross_entropy(logits, labels);
  const Tensor step = optim::Sgd({.learning_rate = 0.1}).minimize(loss, {}, global_step());
  const Tensor initialize = global_variables_initializer();
  const std::vector<Variable> all = global_variables();
  const std::vector<Tensor> variables(all.begin(), all.end());
  on.close();
  building.close();

  Session session(graph, server.target());
  prepare(session, options, initialize, variables);
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    double sum = 0;
    int64_t steps = 0;
    for (const auto& [pictures, names] : share_of(examples, options)) {
      sum += session.run({loss, step}, {{images, pictures}, {labels, names}})[0].to<double>();
      ++steps;
    }
    const Tensor guesses = session.run(logits, {{images, unseen.images}});
    std::printf("worker %d  epoch %d  loss %.3f  accuracy %.3f\n", options.task, epoch,
                sum / double(steps), accuracy(guesses, unseen.labels));
    std::fflush(stdout);
  }
}

int main(int argc, char** argv) {
  return run_main("between_graph", [&] {
    const Options options = parse_options({argv + 1, argv + argc});
    Server server(options.cluster(), {.job_name = options.job, .task_index = options.task});
    if (options.job == "ps") return server.join();
    train(options, server);
  });
}
