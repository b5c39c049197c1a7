#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/shape.h"
#include "cohort/tensor.h"

// What the stages of a dataset can be told beyond their arguments.
namespace cohort::data {

// What Dataset::cardinality() returns instead of a number.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknownCardinality = -2;
// As many threads, or as deep a buffer, as turn out useful.
inline constexpr int kAutotune = -1;
// The count of a shard that the strategy which distributes the dataset fills in.
inline constexpr int64_t kShardHint = -1;

// How a strategy divides a dataset among workers. Auto is File for a dataset that reads files,
// however many there are, and Data for others. Fewer files or elements than workers are
// InvalidArgument.
enum class AutoShardPolicy : int8_t { Off = -1, Auto = 0, File = 1, Data = 2, Hint = 3 };

// What Dataset::options sets; what is not set keeps the value that an earlier stage gave it.
struct DatasetOptions {
  std::optional<AutoShardPolicy> auto_shard_policy = std::nullopt;
  // false: parallel stages may hand on elements in the order in which they are ready.
  std::optional<bool> deterministic = std::nullopt;
  // Most threads of one parallel stage whose own option is kAutotune; default: the number of cores.
  std::optional<int> threads = std::nullopt;
};

struct MapOptions {
  int parallel = 1;  // threads; kAutotune: as many as there are cores
  std::optional<bool> deterministic = std::nullopt;  // default: the dataset's, else true
  std::string name = "Map";                          // what errors call the stage
};

struct BatchOptions {
  bool drop_remainder = false;  // leave out a last batch that is short
  int parallel = 1;             // threads that copy; kAutotune: as many as there are cores
};

struct PaddedBatchOptions {
  // One per tensor; an unknown size is padded to the largest of the batch. Empty: pad everything.
  std::vector<Shape> shapes = {};
  // One scalar per tensor; empty: zeros and empty strings.
  std::vector<Tensor> padding = {};
  bool drop_remainder = false;
};

struct ShuffleOptions {
  std::optional<uint64_t> seed = std::nullopt;  // default: a random one
  bool reshuffle_each_iteration = true;
};

struct InterleaveOptions {
  int64_t cycle = 2;  // datasets that are read in turn
  int64_t block = 1;  // consecutive elements of each
  int parallel = 1;   // of them read ahead by threads of their own; kAutotune: all
};

struct WindowOptions {
  int64_t shift = 0;   // from the start of one window to that of the next; 0: the size
  int64_t stride = 1;  // between the elements of a window
  bool drop_remainder = false;
};

struct ShardOptions {
  // Throws InvalidArgument, on every shard, when there are fewer elements than shards.
  bool require_each = false;
};

struct BucketOptions {
  bool drop_remainder = false;
  bool pad_to_boundary = false;      // pad to the bucket's largest length instead of the batch's
  std::vector<Tensor> padding = {};  // as in PaddedBatchOptions
};

struct SampleOptions {
  std::vector<double> weights = {};  // default: equal
  std::optional<uint64_t> seed = std::nullopt;
  bool stop_on_empty_dataset = false;  // default: go on with the others
};

}  // namespace cohort::data
