// The words of the first distributed TensorFlow programs: a tower is a replica.

#include <cohort/cohort.h>
#include <cohort/legacy.h>

#include <iostream>
using namespace cohort;

int main() {
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  legacy::DistributionStrategy& my_distribution = mirrored;
  auto dataset = data::from_tensor_slices(Tensor({5.f, 6.f, 7.f, 8.f})).batch(2);
  auto tower_fn = [](Tensor x) { return x * legacy::get_tower_context()->num_towers(); };

  auto scope = my_distribution.scope();
  auto iterator = my_distribution.distribute_dataset(dataset).iterator();
  auto tower_train_ops = legacy::call_for_each_tower(my_distribution, tower_fn, iterator.next());
  for (Tensor op : legacy::unwrap(my_distribution, tower_train_ops)) std::cout << op << '\n';
  Tensor train_op = legacy::group(legacy::unwrap(my_distribution, tower_train_ops));
}
