#pragma once

// Datasets of doubles made up at random.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <string>

#include "cohort/readers.h"
#include "support/compress.h"
#include "support/datasets.h"

namespace cohort::data {

// Files of the numbers 0, 1, 2, ..., made once.
class NumberFiles {
 public:
  static constexpr int64_t kCount = 23;

  NumberFiles() {
    std::string lines;
    std::vector<double> values;
    TFRecordWriter records(path("tfrecord"));
    for (int64_t i = 0; i < kCount; ++i) {
      const std::string number = std::to_string(i);
      lines += number + "\n";
      values.push_back(static_cast<double>(i));
      // Short ones and some that readers take past their buffers.
      records.write(number + std::string(i % 4 == 3 ? 40'000 : 3, ' '));
    }
    records.close();
    directory_.file("text", lines);
    directory_.file("text.gz", gzip(lines));
    write_npy(path("npy"), Tensor::from(std::move(values)));
  }
  std::string path(const std::string& name) const { return directory_.path(name); }

 private:
  TemporaryDirectory directory_;
};

inline Dataset numbers_of_file(int kind) {
  static const NumberFiles files;
  const auto parse = [](std::string text) { return std::stod(text); };
  switch (kind) {
    case 0:
      return tfrecord(files.path("tfrecord")).map(parse);
    case 1:
      return text_lines({files.path("text"), files.path("text.gz")}).map(parse);
    case 2:
      return csv(files.path("text.gz"), {{kFloat64}}, {.header = false}).map([](double x) {
        return x;
      });
    default:
      return npy(files.path("npy"));
  }
}

inline Dataset generated(int64_t count) {
  return generator([count] {
    return [i = int64_t{0}, count]() mutable -> std::optional<Element> {
      if (i == count) return std::nullopt;
      return Element(static_cast<double>(i++));
    };
  });
}

// A few doubles.
inline Dataset source(int kind, int64_t count) {
  if (kind == 0) return range(count).map([](int64_t x) { return static_cast<double>(x); });
  if (kind == 1) {
    std::vector<double> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0.0);
    return from_tensor_slices(Element(Tensor::from(std::move(values))));
  }
  return kind == 2 ? generated(count) : numbers_of_file(kind - 3);
}
inline constexpr int kSources = 7;

inline double fail_at_threes(double x) {
  if (static_cast<int64_t>(x) % 5 == 3) throw std::runtime_error("bad element");
  return x;
}

// One stage that keeps elements scalars.
inline Dataset add_stage(const Dataset& dataset, int kind, int64_t n) {
  const int threads = static_cast<int>(n % 3) + 1;
  switch (kind) {
    case 0:
      return dataset.map([](Tensor x) { return x; }, {.parallel = threads});
    case 1:
      return dataset.map(fail_at_threes, {.parallel = threads});
    case 2:
      return dataset.shuffle(n + 1, {.seed = 11});
    case 3:
      return dataset.repeat(n % 3);
    case 4:
      return dataset.take(n);
    case 5:
      return dataset.skip(n % 4);
    case 6:
      return dataset.shard(n % 3 + 1, n % 2 % (n % 3 + 1));
    case 7:
      return dataset.prefetch(static_cast<int>(n % 3));
    case 8:
      return dataset.filter([](double x) { return static_cast<int64_t>(x) % 3 != 0; });
    case 9:
      return dataset.batch(n % 4 + 1, {.parallel = threads}).unbatch();
    case 10:
      return dataset.batch(n % 4 + 1).rebatch({n % 3 + 1, 0, 2}).unbatch();
    case 11:
      return dataset.batch(n % 4 + 1).split_batches(n % 3 + 1).unbatch();
    case 12:
      return dataset.interleave([](Tensor x) { return from_tensors(x).repeat(2); },
                                {.cycle = n % 3 + 1, .block = n % 2 + 1, .parallel = threads});
    case 13:
      return dataset.scan(Element(0.0),
                          [](double sum, double x) { return std::pair(sum + x, sum * 0.5 + x); });
    case 14:
      return dataset.cache();
    case 15:
      return zip({dataset, dataset.skip(1)}).map([](double a, double b) { return a + b; });
    case 16:
      return dataset.concatenate(dataset.take(n % 5));
    case 17:
      return sample_from({dataset, dataset.map([](double x) { return x + 100; })}, {.seed = 5});
    case 18:
      return dataset.window(n % 3 + 1, {.shift = n % 4 + 1}).flat_map([](Dataset window) {
        return window;
      });
    case 19:
      return dataset.padded_batch(n % 3 + 1).unbatch();
    case 20:
      return dataset.enumerate().map(
          [](int64_t i, double x) { return x * 100 + static_cast<double>(i); });
    case 21:
      return dataset.take_while([](double x) { return x < 25; });
    case 22:
      return dataset.cache(new_cache_file());
    case 23:  // shuffles that are made on the way
      return dataset.flat_map([n](double x) {
        return range(n % 3 + 2).shuffle(3, {.seed = 5}).map([x](int64_t i) {
          return x + static_cast<double>(i) / 16;
        });
      });
    case 24: {  // one that all elements share
      const Dataset few = from_tensor_slices(Tensor({0.25, 0.5, 0.75})).shuffle(3, {.seed = 9});
      return dataset.interleave([few](Tensor) { return few.repeat(2); },
                                {.cycle = n % 3 + 1, .parallel = threads});
    }
    case 25: {  // one that two walks share
      const Dataset both = dataset.shuffle(n + 1, {.seed = 3}).repeat(2);
      return zip({both, both.skip(n % 4)}).map([](double a, double b) { return a * 64 + b; });
    }
    case 26:
      return dataset.prefetch();
    case 27:
      return dataset.shuffle(4, {.seed = 8, .reshuffle_each_iteration = false}).repeat(2);
    default:
      return dataset
          .bucket_by_length([](double x) { return static_cast<int64_t>(x); }, {4, 9}, {2, 3, 1})
          .unbatch();
  }
}
inline constexpr int kStages = 29;

inline Dataset random_pipeline() {
  Dataset dataset = source(*rc::gen::inRange(0, kSources), *rc::gen::inRange<int64_t>(0, 30));
  const auto count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    const int kind = *rc::gen::inRange(0, kStages);
    dataset = add_stage(dataset, kind, *rc::gen::inRange<int64_t>(0, 12));
  }
  return dataset;
}

}  // namespace cohort::data
