// Inside of a circle, or outside? One program for one process, for workers in lockstep and for
// parameter servers: TF_CONFIG, which `cohort run` sets, says which (docs/first_program.md).
//
//   cohort run --workers 2 --ps 2 --chief circle backups

#include <cohort/cohort.h>

#include <cstdio>

using namespace cohort;

namespace {

void train(const std::string& backup) {
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

void run(const std::string& backup) {
  const TFConfigClusterResolver resolver;
  const ClusterSpec cluster = resolver.cluster_spec();
  const bool has_ps = cluster && cluster.has_job("ps");
  if (has_ps && serve_task(resolver)) return;  // until the chief is done
  if (!has_ps) {
    MultiWorkerMirroredStrategy strategy;  // of one worker, where there is no cluster
    const auto scope = strategy.scope();
    return train(backup);
  }
  ParameterServerStrategy strategy(resolver);
  const auto scope = strategy.scope();
  train(backup);
  ClusterCoordinator(strategy).shutdown_cluster();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = capture_status([&] { run(argc > 1 ? argv[1] : ""); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
