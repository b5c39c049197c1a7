// Graphs beside the same work without them.

#include <cohort/torch.h>

#include "ratio.h"
#include "support/allocation_meter.h"

namespace {

using namespace cohort;  // NOLINT: a program

// `count` additions of 4 floats, one after the other.
Tensor chain(const Tensor& x, const Tensor& y, int count) {
  Tensor sum = x;
  for (int i = 0; i < count; ++i) sum = add(sum, y);
  return sum;
}

void bench_chain(int count, double limit) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {4});
  const Tensor y = placeholder(kFloat32, {4});
  const Tensor sum = chain(x, y, count);
  Session session;
  const Callable run_chain = session.make_callable({x, y}, {sum});
  const at::Tensor a = at::ones({4});
  const at::Tensor b = at::ones({4});
  const std::vector<Tensor> values{Tensor(a), Tensor(b)};
  bench::run({.name = std::to_string(count) + " chained adds of 4 floats, session",
              .ours = [&] { run_chain(values); },
              .theirs =
                  [&] {
                    at::Tensor total = a;
                    for (int i = 0; i < count; ++i) total = at::add(total, b);
                  },
              .calls = 20000 / count,
              .limit = limit});
}

// The Foundation benchmark's network and one step of training it.
struct Mlp {
  nn::Sequential model{nn::Dense(784, 512), nn::relu, nn::Dense(512, 512), nn::relu,
                       nn::Dense(512, 10)};
  optim::Sgd optimizer{{.learning_rate = 0.01}};

  Tensor step(const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(model(x), labels);
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  }
};
struct Batch {
  Tensor x = random::uniform({128, 784});
  Tensor labels = random::randint({128}, 0, 10);
};

void bench_step() {
  Mlp eager;
  Mlp model;
  const auto traced = function([&](Tensor x, Tensor labels) { return model.step(x, labels); });
  const Batch batch;
  const double tracing = bench::seconds_of([&] { traced(batch.x, batch.labels); });
  std::printf("%-44s %10.2f ms                limit 20\n",
              "tracing, compiling and running the MLP step", tracing * 1e3);
  bench::run({.name = "MLP step, traced over eager",
              .ours = [&] { traced(batch.x, batch.labels); },
              .theirs = [&] { eager.step(batch.x, batch.labels); },
              .calls = 5,
              .rounds = 41,
              .limit = 0.98});
}

// The most bytes that tensors have at once in a step: parameters, batch and what the step makes.
int64_t peak_of_step(bool trace) {
  testing::AllocationMeter meter;
  Mlp model;
  const Batch batch;
  const auto traced = function([&](Tensor x, Tensor labels) { return model.step(x, labels); });
  const auto step = [&] {
    return trace ? traced(batch.x, batch.labels) : model.step(batch.x, batch.labels);
  };
  step();
  meter.reset_peak();
  step();
  return meter.peak_bytes();
}

void bench_memory() {
  const auto ours = static_cast<double>(peak_of_step(true));
  const auto theirs = static_cast<double>(peak_of_step(false));
  std::printf("%-44s %10.0f KB %10.0f KB  ratio %.3f  limit 0.80  %s\n",
              "peak memory of the MLP step, traced over eager", ours / 1024, theirs / 1024,
              ours / theirs, ours <= 0.8 * theirs ? "ok" : "MISSED");
}

void bench_building(int count) {
  const auto body = [&] {
    Graph graph;
    auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {4});
    const Tensor sum = chain(x, x, count);
    Session session;
    session.make_callable({x}, {sum});
  };
  std::printf("%-44s %10.2f ms\n",
              ("build, place and compile " + std::to_string(count) + " nodes").c_str(),
              bench::seconds_of(body) * 1e3);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench_chain(10, 1.1);
  bench_chain(1000, 1.1);
  random::set_seed(1);
  bench_step();
  bench_memory();
  for (const int count : {1'000, 10'000, 100'000}) bench_building(count);
}
