// Who gets which samples, for clusters and datasets made up at random.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support/feeding_workers.h"

namespace cohort {
namespace {

using data::AutoShardPolicy;
using data::range;

std::vector<int64_t> sorted_samples(const std::vector<Steps>& workers) {
  std::vector<int64_t> all;
  for (const Steps& steps : workers) {
    for (const Rows& rows : steps) {
      for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    }
  }
  std::ranges::sort(all);
  return all;
}

int64_t samples_in_step(const std::vector<Steps>& workers, size_t step) {
  int64_t sum = 0;
  for (const Steps& steps : workers) {
    for (const auto& row : steps[step]) sum += static_cast<int64_t>(row.size());
  }
  return sum;
}

void check_full_steps(const std::vector<Steps>& workers, int64_t batch) {
  for (const Steps& steps : workers) RC_ASSERT(steps.size() == workers[0].size());
  for (size_t step = 0; step + 1 < workers[0].size(); ++step) {
    RC_ASSERT(samples_in_step(workers, step) == batch);
  }
}

Cluster some_cluster() {
  return {.workers = *rc::gen::inRange(1, 4), .replicas_per_worker = *rc::gen::inRange(1, 5)};
}

RC_GTEST_PROP(Workers, DataShardingGivesEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::Data, range(count).batch(batch));
  RC_ASSERT(sorted_samples(found) == data::numbers(range(count)));
  check_full_steps(found, batch);
}

RC_GTEST_PROP(Workers, WithoutShardingEachGetsEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  const auto count = *rc::gen::inRange<int64_t>(0, 50);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::Off, range(count).batch(batch));
  for (const Steps& steps : found) {
    RC_ASSERT(sorted_samples({steps}) == data::numbers(range(count)));
  }
  // Workers run out of data at different times; until then the sizes add up.
  for (int64_t step = 0; step < count / batch; ++step) {
    RC_ASSERT(samples_in_step(found, static_cast<size_t>(step)) == batch);
  }
}

RC_GTEST_PROP(Workers, FileShardingGivesEverySampleOnce, ()) {
  const Cluster cluster = some_cluster();
  const auto batch = *rc::gen::inRange<int64_t>(1, 13);
  std::vector<std::vector<int64_t>> content(
      static_cast<size_t>(cluster.workers + *rc::gen::inRange(0, 3)));
  int64_t next = 0;
  for (auto& file : content) {
    for (auto lines = *rc::gen::inRange(0, 12); lines > 0; --lines) file.push_back(next++);
  }
  const NumberFiles files(content);
  const std::vector<Steps> found =
      distribute(cluster, AutoShardPolicy::File, files.dataset().batch(batch));
  RC_ASSERT(sorted_samples(found) == data::numbers(range(next)));
  for (const Steps& steps : found) RC_ASSERT(steps.size() == found[0].size());
}

}  // namespace
}  // namespace cohort
