// Graphs beside the same work without them.

#include <cohort/torch.h>
#include <sys/resource.h>

#include "ratio.h"

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

void bench_step() {
  random::set_seed(1);
  nn::Sequential eager_model{nn::Dense(784, 512), nn::relu, nn::Dense(512, 512), nn::relu,
                             nn::Dense(512, 10)};
  nn::Sequential traced_model{nn::Dense(784, 512), nn::relu, nn::Dense(512, 512), nn::relu,
                              nn::Dense(512, 10)};
  optim::Sgd eager_optimizer({.learning_rate = 0.01});
  optim::Sgd traced_optimizer({.learning_rate = 0.01});
  const auto step = [](nn::Sequential& model, optim::Sgd& optimizer, const Tensor& x,
                       const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(model(x), labels);
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };
  const auto traced = function(
      [&](Tensor x, Tensor labels) { return step(traced_model, traced_optimizer, x, labels); });
  const Tensor x = random::uniform({128, 784});
  const Tensor labels = random::randint({128}, 0, 10);
  const double tracing = bench::seconds_of([&] { traced(x, labels); });
  std::printf("%-44s %10.2f ms                limit 20\n",
              "tracing, compiling and running the MLP step", tracing * 1e3);
  bench::run({.name = "MLP step, traced over eager",
              .ours = [&] { traced(x, labels); },
              .theirs = [&] { step(eager_model, eager_optimizer, x, labels); },
              .calls = 5,
              .rounds = 41,
              .limit = 0.98});
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
  bench_step();
  for (const int count : {1'000, 10'000, 100'000}) bench_building(count);
}
