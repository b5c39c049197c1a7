// A model whose layers keep their weights on two parameter servers and are computed by a worker.
// The weights go to the worker, the gradients to the servers. TF_CONFIG says which task a process
// is:
//
//   cohort run --ps 2 --workers 3 --chief placed_layers

#include <cohort/cohort.h>

#include <iostream>
#include <regex>
using namespace cohort;

struct Model {
  explicit Model(const std::string& worker) {
    auto building = graph.as_default();
    Variable weights_1, biases_1, weights_2, biases_2;
    {
      auto on = device("/job:ps/task:0");
      weights_1 = get_variable("weights_1", {.shape = {2, 8}, .initializer = nn::constant(0.5)});
      biases_1 = get_variable("biases_1", {.shape = {8}, .initializer = nn::zeros()});
    }
    {
      auto on = device("/job:ps/task:1");
      weights_2 = get_variable("weights_2", {.shape = {8, 1}, .initializer = nn::constant(0.5)});
      biases_2 = get_variable("biases_2", {.shape = {1}, .initializer = nn::zeros()});
    }
    auto on = device(worker);
    Tensor input({{1.f, 0.f}, {0.f, 1.f}, {1.f, 1.f}}), labels({{1.f}, {2.f}, {3.f}});
    Tensor layer_1 = nn::relu(matmul(input, weights_1) + biases_1);
    Tensor logits = nn::relu(matmul(layer_1, weights_2) + biases_2);
    loss = mean(square(logits - labels));
    train_op = optim::Sgd({.learning_rate = 0.01}).minimize(loss);
    init = global_variables_initializer();
  }

  Graph graph;
  Tensor init, loss, train_op;
};

void train(const std::string& target, const Model& model) {
  Session sess(model.graph, target);
  sess.run(model.init);
  float first = sess.run(model.loss).to<float>();
  for (int step = 0; step < 200; ++step) sess.run(model.train_op);
  float last = sess.run(model.loss).to<float>();
  std::cout << "the loss fell below a tenth: " << (last < first / 10) << '\n';
}

int main() {
  const TFConfigClusterResolver resolver;
  if (serve_task(resolver)) return 0;
  const std::string target = resolver.master("worker", 0, "grpc");
  const std::string error =
      capture_status([&] { train(target, Model("/job:worker/task:7")); }).message;
  // The error also names this line. The path of the file differs from machine to machine.
  std::cout << std::regex_replace(error, std::regex(", made at [^)]*"), "") << '\n';
  train(target, Model("/job:worker/task:2"));
}
