#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "errors/catalogue.h"

namespace cohort::test {
namespace {

struct Scales : torch::nn::Module {
  Scales()
      : a(register_parameter("a", torch::ones({2}))),
        seen(register_buffer("seen", torch::zeros({1}))) {}
  torch::Tensor loss() { return a.sum(); }
  torch::Tensor a, seen;
};

// A strategy of two replicas, a module in its scope, and an optimizer for the module.
struct TwoCopies {
  MirroredStrategy strategy{"CPU:0", "CPU:1"};
  TorchModule<Scales> net = strategy.create([] { return TorchModule<Scales>(); });
  TorchOptimizer<torch::optim::SGD> optimizer{net, torch::optim::SGDOptions(0.25)};
};

// Calls `body` with new copies, because an error may leave a module as it must not be.
template <typename Body>
std::function<void()> with_copies(Body body) {
  return [body] {
    TwoCopies here;
    body(here);
  };
}

TEST(Errors, OfTorchModules) {
  check_section(
      "torch modules",
      {
          {with_copies([](TwoCopies& here) { here.strategy.run([] { TorchModule<Scales>(); }); })},
          {with_copies([](TwoCopies& here) {
            const TorchModule<Scales> one;
            here.strategy.run([&] { one->loss(); });
          })},
          {with_copies(
              [](TwoCopies& here) { here.optimizer.minimize(here.net->loss(), here.net); })},
          {with_copies([](TwoCopies& here) {
            here.strategy.run([&] { here.optimizer.minimize(here.net->a * 2, here.net); });
          })},
          {with_copies([](TwoCopies& here) {
            const torch::Tensor loss = here.net->loss();
            here.strategy.run([&] { here.optimizer.minimize(loss, here.net); });
          })},
          {with_copies([](TwoCopies& here) {
            const torch::Tensor other = torch::ones({2}, torch::requires_grad());
            here.strategy.run([&] { here.optimizer.minimize(other.sum(), here.net); });
          })},
          {with_copies([](TwoCopies& here) {
            here.strategy.run([&] {
              here.net->loss().backward();
              here.optimizer.minimize(here.net->loss(), here.net);
            });
          })},
          {with_copies([](TwoCopies& here) {
            here.strategy.run([&] {
              here.net->loss().backward();
              here.optimizer->step();
            });
          })},
          {with_copies([](TwoCopies& here) {
            here.net->seen.fill_(7);
            here.strategy.run([] {});
          })},
          {[] {
            TorchModule<torch::nn::LinearImpl>(TorchModuleOptions{.sync_batch_norm = true}, 2, 1);
          }},
          {[] { Tensor(torch::ones({2}, torch::kComplexFloat)); }},
          {[] {
            Tensor(torch::ones({2, 2}).to_sparse());
          }},
          {[] { torch::Tensor(Tensor("text")); }, "torch has no strings; look ids up first."},
          {[] {
            Graph graph;
            const auto building = graph.as_default();
            TorchModule<Scales>();
          }},
      });
}

}  // namespace
}  // namespace cohort::test
