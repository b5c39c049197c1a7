#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "errors/catalogue.h"
#include "support/temporary_file.h"

namespace cohort::test {
namespace {

using data::Dataset;
using data::Element;

void read_all(const Dataset& dataset) {
  data::Iterator elements = dataset.iterator();
  while (elements.next_optional()) {
  }
}

TEST(Errors, OfDatasets) {
  const Dataset rows = data::from_tensor_slices(Tensor({{1.f, 2.f}, {3.f, 4.f}}));
  const Dataset uneven =
      data::range(1, 4).map([](int64_t n) { return std::vector<int64_t>(n, n); });
  check_section(
      "Datasets",
      {
          {[] { data::range(3).batch(0); }},
          {[] { data::range(3).shuffle(0); }},
          {[] { data::range(0, 3, 0); }},
          {[] { data::range(3).shard(3, 3); }},
          {[] { data::range(3).options({.threads = 0}); }},
          {[] {
             data::from_tensor_slices(Tensor({1, 2}), Tensor({1, 2, 3}));
           },
           "Give tensors with one row for each element."},
          {[] {
            read_all(data::zip({data::range(3), data::range(3)}).map([](Tensor a) { return a; }));
          }},
          {[&] { read_all(uneven.batch(2)); }},
          {[&] { read_all(uneven.padded_batch(2, {.shapes = {Shape({1})}})); },
           "Give a larger shape, or leave the size open (-1)."},
          {[] { read_all(data::range(3).unbatch()); }},
          {[] { read_all(data::range(3).map([](Tensor a, Tensor b) { return a + b; })); }},
          {[] { read_all(data::range(3).filter([](int64_t n) { return n; })); }},
          {[] { data::zip({}); }},
          {[] {
            data::sample_from({data::range(1), data::range(1)}, {.weights = {1}});
          }},
          {[] {
            read_all(data::range(3)
                         .flat_map([](int64_t n) { return data::range(n); })
                         .window(2)
                         .batch(2));
          }},
          {[] {
             Element::map({{"x", Tensor(1)}})["y"];
           },
           "Use one of the names that the text lists."},
          {[] {
            (void)Element::tuple(std::vector<Tensor>{Tensor(1), Tensor(2)}).tensor();
          }},
          {[] {
             data::Iterator it = data::range(1).iterator();
             it.next();
             it.next();
           },
           "Use `next_optional()` or range-for, which end there."},
          {[] { data::range(5).shuffle(2).iterator(data::range(5).iterator().save()); },
           "Restore with the dataset that the position was saved with."},
          {[] { data::range(3).map([](int64_t n) { return n; }).serialize(); }},
          {[] { Dataset::deserialize("\xff\xff"); },
           "Give the bytes that `Dataset::serialize()` returned."},
      });
}

TEST(Errors, OfDataFiles) {
  const TemporaryDirectory directory;
  const auto file = [&](const std::string& name, const std::string& bytes) {
    return directory.write(name, bytes);
  };
  const std::string csv = file("a.csv", "x,y\n1,2\n3,many\n");
  const std::string short_row = file("b.csv", "x,y\n1,2\n3\n");
  const std::string record = file("a.tfrecord", "no record at all");
  const std::string npy = file("a.npy", "no array at all");
  const std::string idx = file("a.idx", "no images");
  const std::string gzip = file("a.gz", "\x1f\x8b\x08 damaged");
  check_section(
      "Files of data",
      {
          {[&] { data::files({directory.path() + "/*.png"}); },
           "Check the directory and the pattern."},
          {[&] { read_all(data::text_lines(directory.path() + "/none.txt")); },
           "Check the path; each worker must see the file."},
          {[&] { read_all(data::text_lines(directory.path())); },
           "Name the files inside: `data::files({\"directory/*.txt\"})`."},
          {[&] {
             read_all(data::csv(csv, {{kInt32}, {kInt32}}));
           },
           "Correct the file, or give the column a `.fallback`."},
          {[&] {
             read_all(data::csv(short_row, {{kInt32}, {kInt32}}));
           },
           "Correct the file."},
          {[&] { data::csv(csv, {}); }},
          {[&] {
            data::csv(csv, {{kInt32}}, {.select = {1, 0}});
          }},
          {[&] { read_all(data::tfrecord(record)); }, "Write the file again."},
          {[&] { read_all(data::text_lines(gzip)); },
           "Write the file again, or rename it if it is not compressed."},
          {[&] { data::read_npy(npy); }, "Write it with `write_npy()` or `numpy.save()`."},
          {[&] { data::read_idx(idx); }, "Download the file again."},
          {[] { data::fashion_mnist("/nowhere"); }},
          {[&] { data::TFRecordWriter(directory.path() + "/no/such/file"); },
           "Make the directory first."},
          {[&] { read_all(data::fixed_length_records(record, 5)); },
           "Give the length, `.header` and `.footer` that the file was written with."},
      });
}

TEST(Errors, OfDistributedDatasets) {
  const TemporaryDirectory directory;
  const std::string one_file = directory.write("a.txt", "1\n2\n");
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto next_in_run = [&] {
    DistributedIterator it = strategy.distribute_dataset(data::range(4).batch(2)).iterator();
    strategy.run([&] { it.next(); });
  };
  const auto batch_of_three = [](const InputContext& context) {
    return data::range(9).batch(context.get_per_replica_batch_size(3));
  };
  check_section(
      "Datasets of strategies",
      {
          {[&] { strategy.distribute_dataset(data::range(4)); }},
          {next_in_run},
          {[&] { strategy.distribute_datasets_from_function(batch_of_three); }},
          {[&] {
            strategy.distribute_dataset(data::range(4).batch(2),
                                        {.replication_mode = InputReplicationMode::PerReplica});
          }},
          {[&] {
            strategy.distribute_dataset(data::range(4).batch(2), {.per_replica_buffer_size = -1});
          }},
          {[&] {
             DistributedIterator it =
                 strategy.distribute_dataset(data::range(2).batch(2)).iterator();
             it.next();
             it.next();
           },
           "Use `next_optional()` or range-for, which end there."},
          {[] { read_all(data::range(3).shard(data::kShardHint, 0)); }},
          {[&] { read_all(data::text_lines(one_file).shard(4, 3, {.require_each = true})); }},
      });
}

}  // namespace
}  // namespace cohort::test
