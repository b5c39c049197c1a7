// Between-graph replication: every worker runs this program, builds its own graph of one tower, and
// opens a session on its own server. Variables on the ps tasks are shared by their names. Workers
// wait for each other only when told to. See README.md.

#include <cohort/graph_training.h>

#include <optional>

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

// The graph of one worker: variables go to the ps tasks in turn, everything else to this worker.
struct Tower {
  explicit Tower(const Options& options) {
    const auto building = graph.as_default();
    const auto on = device(replica_device_setter(
        options.cluster(), {.worker_device = "/job:worker/task:" + std::to_string(options.task)}));
    const Variable steps = global_step();
    // Steps are as large as those of as many workers as an update takes gradients of.
    sgd.emplace(optim::SgdOptions{.learning_rate = 0.1 * std::max(options.sync, 1)});
    images = placeholder(kUInt8, {-1, 784});
    labels = placeholder(kUInt8, {-1});
    logits = Model()(images);
    loss = nn::softmax_cross_entropy(logits, labels);
    if (options.sync > 0) {
      synchronise(options, steps);
    } else {
      train = sgd->minimize(loss, {}, steps);
    }
  }

  // Updates with the mean of the gradients of `sync` workers.
  void synchronise(const Options& options, const Variable& steps) {
    replicas.emplace(
        *sgd, SyncReplicasOptions{.replicas_to_aggregate = options.sync,
                                  .total_num_replicas = static_cast<int>(options.workers.size())});
    train = replicas->minimize(loss, {}, steps);
    hooks.push_back(replicas->make_session_run_hook(options.task == 0));
  }

  Graph graph;
  Tensor images, labels;  // to be fed
  Tensor logits, loss, train;
  std::optional<optim::Sgd> sgd;
  std::optional<SyncReplicasOptimizer> replicas;
  Hooks hooks;
};

// One walk through the worker's examples. Returns the mean loss.
double train_epoch(MonitoredSession& session, const Tower& tower, const data::Dataset& batches) {
  double sum = 0;
  int64_t steps = 0;
  for (const auto& [images, labels] : batches) {
    if (session.should_stop()) break;
    sum +=
        session.run({tower.loss, tower.train}, {{tower.images, images}, {tower.labels, labels}})[0]
            .to<double>();
    ++steps;
  }
  return sum / double(steps);
}

void train(const Options& options, const Server& server) {
  const Examples examples(options.data, "train"), unseen(options.data, "t10k");
  random::set_seed(1);
  Tower tower(options);
  auto building = tower.graph.as_default();
  MonitoredTrainingSession session({.master = server.target(),
                                    .is_chief = options.task == 0,
                                    .checkpoint_dir = options.checkpoints,
                                    .hooks = tower.hooks});
  building.close();
  session.manage([&] {
    for (int epoch = 1; epoch <= options.epochs; ++epoch) {
      const double loss = train_epoch(session, tower, share_of(examples, options));
      const Tensor guesses =
          session.raw_session().run(tower.logits, {{tower.images, unseen.images}});
      std::printf("worker %d  epoch %d  loss %.3f  accuracy %.3f\n", options.task, epoch, loss,
                  accuracy(guesses, unseen.labels));
      std::fflush(stdout);
    }
  });
}

int main(int argc, char** argv) {
  return run_main("between_graph", [&] {
    const Options options = parse_options({argv + 1, argv + argc});
    Server server(options.cluster(), {.job_name = options.job, .task_index = options.task});
    if (options.job == "ps") return server.join();
    train(options, server);
  });
}
