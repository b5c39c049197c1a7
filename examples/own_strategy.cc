// A strategy of one's own, made with the public interface only. Every replica learns by itself, on
// its own copy of the model; every few steps the copies are replaced by their mean. Replicas then
// talk to each other seldom, which suits slow networks ("local SGD").

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

class LocalSgd : public StrategyExtended {
 public:
  explicit LocalSgd(const std::vector<std::string>& devices)
      : devices_(resolve_devices("LocalSgd", devices)) {}

  std::string name() const override { return "LocalSgd"; }
  std::vector<std::string> worker_devices() const override { return devices_; }
  StrategyTraits traits() const override { return {.guards = {.divergence = GuardAction::Off}}; }

  // What an optimizer asks for: each replica gets its own gradients back.
  std::vector<Gradient> replica_all_reduce(ReplicaContext&, const ReplicaReduction& own) override {
    return own.values;
  }

  // Makes the copies of `variable` equal.
  void average(const Variable& variable) {
    std::vector<Gradient> copies;
    for (const Variable& copy : strategy().local_results(variable))
      copies.emplace_back(copy.read_value());
    const DistributedValue mean =
        reduce_to(ReduceOp::Mean, {DistributedValue::Kind::PerReplica, copies}, variable);
    update(
        variable, [](Variable copy, Tensor value) { copy.assign(value); }, mean);
  }

 private:
  std::vector<std::string> devices_;
};

int main() {
  Strategy strategy(std::make_unique<LocalSgd>(std::vector<std::string>{"CPU:0", "CPU:1"}));
  auto scope = strategy.scope();
  Variable w(0.f);
  optim::Sgd optimizer({.learning_rate = 0.1});

  const auto targets = data::from_tensor_slices(Tensor({1.f, 3.f})).repeat(60).batch(2);
  for (auto batch : strategy.distribute_dataset(targets)) {
    strategy.run(
        [&](Tensor target) { optimizer.minimize([&] { return sum(square(w - target)); }, {w}); },
        batch);
  }
  std::cout << "each learnt its own:";
  for (const Variable& copy : strategy.local_results(w))
    std::cout << ' ' << round(copy.read_value());
  std::cout << '\n';
  static_cast<LocalSgd&>(strategy.extended()).average(w);
  std::cout << "together: " << round(w.read_value()) << '\n';
}
