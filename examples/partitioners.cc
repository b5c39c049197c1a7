// Into how many parts a large variable is cut for several parameter servers, along each dimension.

#include <cohort/cohort.h>

#include <iostream>

#include "lists.h"
using namespace cohort;

void print(const std::vector<int64_t>& partitions) { std::cout << to_list(partitions) << '\n'; }

int main() {
  const Shape shape{10, 3};
  {
    std::cout << "FixedShardsPartitioner, 2 parts\n";
    FixedShardsPartitioner partitioner(2);
    print(partitioner(shape, kFloat32, /*axis=*/0));
    print(partitioner(shape, kFloat32, /*axis=*/1));
  }
  {
    std::cout << "MinSizePartitioner, at least 24 bytes, at most 4 parts\n";
    MinSizePartitioner partitioner({.min_shard_bytes = 24, .max_shards = 4});
    print(partitioner(shape, kFloat32, /*axis=*/0));
  }
  {
    std::cout << "MinSizePartitioner, at least 24 bytes, at most 8 parts\n";
    MinSizePartitioner partitioner({.min_shard_bytes = 24, .max_shards = 8});
    print(partitioner(shape, kFloat32, /*axis=*/0));
  }
  {
    std::cout << "MaxSizePartitioner, at most 1000 bytes\n";
    MaxSizePartitioner partitioner({.max_shard_bytes = 1000});
    print(partitioner({100, 16}, kFloat32, /*axis=*/0));
  }
}
