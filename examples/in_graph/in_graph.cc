// In-graph replication: one client builds one graph with a tower on every worker, the variables on
// the ps tasks. Servers only serve. See README.md.

#include "../fashion_cluster.h"

using namespace fashion;

// The same model on every worker, each with a share of the batch. Their gradients are summed where
// the variables are.
struct Towers {
  std::vector<Tensor> images, labels;  // to be fed, one for each worker
  Tensor loss, train;

  Towers(const Model& model, int count, int batch) {
    std::vector<Gradients> slopes;
    std::vector<Tensor> losses;
    for (int i = 0; i < count; ++i) {
      auto on = device("/job:worker/task:" + std::to_string(i));
      images.push_back(placeholder(kUInt8, {-1, 784}));
      labels.push_back(placeholder(kUInt8, {-1}));
      losses.push_back(
          nn::softmax_cross_entropy(model(images[i]), labels[i], {.global_batch_size = batch}));
      slopes.push_back(gradients({losses[i]}, model.variables()));
    }
    Gradients sums;
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const Colocation together(model.variables()[v]);
      Tensor sum = slopes[0][v].dense();
      for (int i = 1; i < count; ++i) sum = sum + slopes[i][v].dense();
      sums.push_back(sum);
    }
    loss = losses[0];
    for (int i = 1; i < count; ++i) loss = loss + losses[i];
    train = optim::Sgd({.learning_rate = 0.3}).apply_gradients(sums, model.variables());
  }
};

void train(const Options& options) {
  const Examples examples(options.data, "train"), unseen(options.data, "t10k");
  const int workers = static_cast<int>(options.workers.size());
  const int ps = static_cast<int>(options.ps.size());
  const int share = options.batch / workers;
  random::set_seed(1);

  Graph graph;
  auto building = graph.as_default();
  const Model model([&](int layer) { return "/job:ps/task:" + std::to_string(layer % ps); });
  const Towers towers(model, workers, share * workers);
  const Tensor pictures = placeholder(kUInt8, {-1, 784});
  const Tensor logits = model(pictures);
  const Tensor initialize = global_variables_initializer();
  building.close();

  Session session(graph, "grpc://" + options.workers[0]);
  session.run(initialize);
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    double loss = 0;
    int64_t steps = 0;
    const auto batches = data::from_tensor_slices(examples.images, examples.labels)
                             .shuffle(60'000)
                             .batch(share * workers, {.drop_remainder = true});
    for (const auto& [images, labels] : batches) {
      Feeds feeds;
      for (int i = 0; i < workers; ++i) {
        feeds.push_back({towers.images[i], slice(images, {{i * share, (i + 1) * share}})});
        feeds.push_back({towers.labels[i], slice(labels, {{i * share, (i + 1) * share}})});
      }
      loss += session.run({towers.loss, towers.train}, feeds)[0].to<double>();
      ++steps;
    }
    const Tensor guesses = session.run(logits, {{pictures, unseen.images}});
    std::printf("epoch %d  loss %.3f  accuracy %.3f\n", epoch, loss / double(steps),
                accuracy(guesses, unseen.labels));
    std::fflush(stdout);
  }
}

int main(int argc, char** argv) {
  return run_main("in_graph", [&] {
    const Options options = parse_options({argv + 1, argv + argc});
    if (options.job == "client") return train(options);
    Server(options.cluster(), {.job_name = options.job, .task_index = options.task}).join();
  });
}
