// Inside of a circle, or outside? One program for every strategy: the way it is started says which
// (docs/first_program.md).
//
//   circle
//   cohort run -n 2 circle
//   cohort run --strategy parameter_server --workers 2 --ps 2 circle backups

#include <cohort/cohort.h>

#include <cstdio>

using namespace cohort;

namespace {

void train(const std::string& backup) {
  const auto strategy = strategy_from_environment();  // ps and worker tasks serve in here
  const auto scope = strategy->scope();

  random::set_seed(1);
  const Tensor x = random::uniform({512, 2}, {.low = -1, .high = 1});
  const Tensor labels = cast(greater(sum(square(x), 1), 0.5f), kInt32);
  const auto dataset = data::from_tensor_slices(x, labels)
                           .shuffle(512, {.seed = 1})
                           .batch(32)
                           .options({.auto_shard_policy = data::AutoShardPolicy::Data});

  nn::Sequential model{nn::Dense(2, 32), nn::relu, nn::Dense(32, 2)};
  optim::Adam optimizer({.learning_rate = 0.01});
  auto accuracy = std::make_shared<metrics::SparseCategoricalAccuracy>("accuracy");
  Trainer trainer(model, nn::softmax_cross_entropy, optimizer, {.metrics = {accuracy}});
  trainer.fit(dataset, {.epochs = 40, .backup = backup});
  const bool learnt = trainer.evaluate(dataset).at("accuracy") > 0.9;
  if (trainer.is_chief()) std::printf("%s\n", learnt ? "learnt" : "not learnt");
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = capture_status([&] { train(argc > 1 ? argv[1] : ""); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
