// The algorithms that a MirroredStrategy can reduce with. All give the same sums.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

int main() {
  const std::vector<std::shared_ptr<CrossDeviceOps>> algorithms = {
      std::make_shared<ReductionToOneDevice>("CPU:0"),
      std::make_shared<HierarchicalCopyAllReduce>(),
      std::make_shared<NcclAllReduce>(),  // without NCCL it reduces on one device
  };
  for (const auto& cross_device_ops : algorithms) {
    MirroredStrategy strategy({"CPU:0", "CPU:1"}, {.cross_device_ops = cross_device_ops});
    auto values = strategy.distribute_values_from_function([](ValueContext context) {
      return Tensor({context.replica_id_in_sync_group + 1.f, 10.f});
    });
    std::cout << cross_device_ops->to_string() << '\n'
              << "  sum: " << strategy.reduce(ReduceOp::Sum, values) << '\n'
              << "  mean: " << strategy.reduce(ReduceOp::Mean, values) << '\n';
  }
}
