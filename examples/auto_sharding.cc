// How a dataset is divided between two workers, for each policy. The chief prints what both get.
// TF_CONFIG says which worker a process is:
//
//   cohort run -n 2 auto_sharding

#include <cohort/cohort.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "lists.h"
using namespace cohort;

// Writes numbers into a file in the current directory, one per line.
void write_file(const std::string& name, int first, int last) {
  std::ofstream file(name);
  for (int number = first; number <= last; ++number) file << number << '\n';
}

// Reads the numbers in files, in batches of 4 for both workers together.
data::Dataset numbers_of(const std::vector<std::string>& files) {
  return data::text_lines(files)
      .map([](std::string line) { return int64_t{std::stol(line)}; })
      .batch(4);
}

void print_shares(MultiWorkerMirroredStrategy& strategy, const std::string& title,
                  const data::Dataset& dataset, data::AutoShardPolicy policy) {
  std::vector<std::string> shares(2);
  auto dist_dataset = strategy.distribute_dataset(dataset.options({.auto_shard_policy = policy}));
  for (auto x : dist_dataset) {
    auto row = strategy.run([](Tensor own) { return reshape(own, {1, -1}); }, x);
    Tensor rows = strategy.gather(row, /*axis=*/0);
    for (size_t i = 0; i < shares.size(); ++i)
      shares[i] += (shares[i].empty() ? "" : ", ") + to_list(rows[i].to_vector<int64_t>());
  }
  if (!strategy.is_chief()) return;
  std::cout << title << '\n';
  for (size_t i = 0; i < shares.size(); ++i)
    std::cout << "  replica " << i + 1 << ": " << shares[i] << '\n';
}

int main() {
  using enum data::AutoShardPolicy;
  const TFConfigClusterResolver resolver;
  const std::vector<std::string> one_file = {"numbers"}, two_files = {"numbers_1", "numbers_2"};
  if (resolver.task_id() == 0) {
    write_file("numbers", 0, 7);
    write_file("numbers_1", 0, 3);
    write_file("numbers_2", 4, 7);
  }
  MultiWorkerMirroredStrategy strategy(resolver);  // waits until both workers are there
  print_shares(strategy, "DATA, one file", numbers_of(one_file), Data);
  print_shares(strategy, "FILE, two files", numbers_of(two_files), File);
  print_shares(strategy, "AUTO, two files", numbers_of(two_files), Auto);
  print_shares(strategy, "AUTO, no file", data::range(8).batch(4), Auto);
  print_shares(strategy, "OFF, one file", numbers_of(one_file), Off);
  print_shares(strategy, "OFF, no file", data::range(8).batch(4), Off);
  if (strategy.is_chief()) {
    for (const char* name : {"numbers", "numbers_1", "numbers_2"}) std::filesystem::remove(name);
  }
}
