// How large variables are cut into parts for several parameter servers.

#include <cohort/cohort.h>

#include <iostream>
using namespace cohort;

void print(const char* what, const std::vector<int64_t>& parts) {
  std::cout << what << ":";
  for (int64_t count : parts) std::cout << ' ' << count;
  std::cout << '\n';
}

int main() {
  print("two parts", FixedShardsPartitioner(2)({10, 3}, kFloat32, 0));
  print("two parts of the columns", FixedShardsPartitioner(2)({10, 3}, kFloat32, 1));
  print("at least 24 bytes, at most 4",
        MinSizePartitioner{{.min_shard_bytes = 24, .max_shards = 4}}({10, 3}, kFloat32, 0));
  print("at least 24 bytes, at most 8",
        MinSizePartitioner{{.min_shard_bytes = 24, .max_shards = 8}}({10, 3}, kFloat32, 0));
  print("at most 1000 bytes",
        MaxSizePartitioner{{.max_shard_bytes = 1000}}({100, 16}, kFloat32, 0));
}
