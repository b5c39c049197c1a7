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

  // A batch, cut into equal shares.
  Feeds feeds(const Tensor& batch_images, const Tensor& batch_labels) const {
    const auto count = static_cast<int64_t>(images.size());
    const int64_t share = batch_labels.size() / count;
    Feeds all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back({images[i], slice(batch_images, {{i * share, (i + 1) * share}})});
      all.push_back({labels[i], slice(batch_labels, {{i * share, (i + 1) * share}})});
    }
    return all;
  }
};

void train(const Options& options) {
  const Examples examples(options.data, "train"), unseen(options.data, "t10k");
  const int workers = static_cast<int>(options.workers.size());
  const int ps = static_cast<int>(options.ps.size());
  const int batch = options.batch / workers * workers;
  random::set_seed(1);

  Graph graph;
  auto building = graph.as_default();
  const Model model([&](int layer) { return "/job:ps/task:" + std::to_string(layer % ps); });
  const Towers towers(model, workers, batch);
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
                             .batch(batch, {.drop_remainder = true});
    for (const auto& [images, labels] : batches) {
      const Feeds feeds = towers.feeds(images, labels);
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
