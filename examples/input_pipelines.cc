// A function that makes each input pipeline itself. It batches for one replica; the strategy leaves
// the elements as they are.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});

  auto dataset_fn = [](const InputContext& input_context) {
    int64_t global_batch_size = 4;
    int64_t batch_size = input_context.get_per_replica_batch_size(global_batch_size);
    auto dataset = data::range(8).batch(global_batch_size);
    dataset = dataset.shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
    dataset = dataset.unbatch().batch(batch_size);
    return dataset.prefetch(2);
  };
  auto dist_dataset = strategy.distribute_datasets_from_function(dataset_fn);
  for (auto x : dist_dataset) std::cout << x << '\n';
}
