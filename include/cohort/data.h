#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/element.h"
#include "cohort/internal/data_function.h"
#include "cohort/site.h"

// Input pipelines: descriptions of where elements come from and what happens to them on the way.
//
//   auto train = data::from_tensor_slices(images, labels)
//                    .shuffle(10'000)
//                    .batch(256)
//                    .map([](Tensor image, Tensor label) { return std::tuple(image / 255.f, label);
//                    }) .prefetch();
//   for (auto [image, label] : train) ...
namespace cohort::data {

class Dataset;

namespace internal {
class Node;
class IteratorBase;
struct DatasetAccess;
}  // namespace internal

// What Dataset::cardinality() says when there is no number.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknownCardinality = -2;
// As many threads, or as deep a buffer, as turn out useful.
inline constexpr int kAutotune = -1;
// The count of a shard that the strategy which distributes the dataset fills in.
inline constexpr int64_t kShardHint = -1;

// A function on elements. Made implicitly from a callable whose parameters are tensors, elements or
// C++ values (numbers, std::string, std::vector, std::span<const T>), one for each part of the
// element, and which returns such a value, a std::tuple of them or a std::map by name. A traced
// function (cohort::function) of tensors does as well. A callable
// of numbers, spans of them and std::arrays runs without making tensors: the fastest kind of map.
//
// Parallel stages call it from several threads at the same time.
class Function {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, Function>) Function(F&& callable)
      : call_([f = std::decay_t<F>(callable)](const Element& element) mutable {
          return internal::to_element(internal::call_with(f, element));
        }),
        rows_(internal::make_row_function<std::decay_t<F>>(callable)) {}

  Element operator()(const Element& element) const { return call_(element); }
  // Under which it was registered; empty when it was not, and then it cannot leave this process.
  const std::string& name() const { return name_; }

 private:
  friend struct internal::DatasetAccess;
  Function() = default;

  std::function<Element(const Element&)> call_;
  std::shared_ptr<const internal::RowFunction> rows_;
  std::string name_;
};

// A function from an element to a dataset, for flat_map and interleave.
class DatasetFunction {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, DatasetFunction>) DatasetFunction(F&& callable)
      : call_([f = std::decay_t<F>(callable)](const Element& element) mutable {
          return Dataset(internal::call_with(f, element));
        }) {}

  Dataset operator()(const Element& element) const;
  const std::string& name() const { return name_; }

 private:
  friend struct internal::DatasetAccess;
  DatasetFunction() = default;

  std::function<Dataset(const Element&)> call_;
  std::string name_;
};

// Makes the elements of a generator one after the other; nullopt ends them.
using NextFunction = std::function<std::optional<Element>()>;
// Called at the start of each iteration, gives what makes that iteration's elements.
class GeneratorFunction {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, GeneratorFunction> &&
           std::is_invocable_r_v<NextFunction, F&>) GeneratorFunction(F&& callable)
      : start_(std::forward<F>(callable)) {}

  NextFunction operator()() const { return start_(); }
  const std::string& name() const { return name_; }

 private:
  friend struct internal::DatasetAccess;
  GeneratorFunction() = default;

  std::function<NextFunction()> start_;
  std::string name_;
};

// Gives a function a name by which a serialized dataset refers to it; the process that builds the
// dataset must have registered a function of that name as well. Returns the function to use in
// stages. Throws AlreadyExists when the name is taken.
Function register_function(const std::string& name, Function function);
DatasetFunction register_dataset_function(const std::string& name, DatasetFunction function);
GeneratorFunction register_generator(const std::string& name, GeneratorFunction function);

// How a strategy divides a dataset among workers.
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

// A walk over a dataset's elements. Copies share the position. Thread-safe: each element goes to
// one caller. When the last copy is gone, its threads stop; a user's function that is running is
// waited for.
class Iterator {
 public:
  explicit Iterator(std::shared_ptr<internal::IteratorBase> base);

  // Throws OutOfRange at the end. An error in a stage says which stage and which element; calling
  // again goes on behind that element.
  //
  // In code that function() traces, the element's tensors are symbols, and each call of the traced
  // function takes the next element. FailedPrecondition when there is no element_spec().
  Element next(Site site = Site::here());
  // nullopt at the end. Throws FailedPrecondition in code that is traced, which cannot branch on
  // it.
  std::optional<Element> next_optional();

  // What is known of the elements: what the dataset knows, else what a first element shows that is
  // made to find out, with its first size unknown. nullopt when there is none.
  std::optional<ElementSpec> element_spec() const;

  // The position, buffers of shuffles and results of parallel stages included: bytes from which
  // Dataset::iterate goes on with exactly the elements that this iterator would have given. Throws
  // FailedPrecondition when a source cannot tell its position.
  std::string save();

  // For traced functions: what stands for the iterator in operations, an iterator like this one
  // that `handle` stands for, and what all have in common that one trace serves.
  const Tensor& handle() const { return handle_; }
  Iterator with_handle(Tensor handle) const;
  std::string kind() const;

 private:
  std::shared_ptr<internal::IteratorBase> base_;
  Tensor handle_;
};

// For range-for: an input iterator that ends where the data does.
class ElementIterator {
 public:
  using value_type = Element;
  using reference = const Element&;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  explicit ElementIterator(Iterator from) : from_(std::move(from)) { ++*this; }
  const Element& operator*() const { return *current_; }
  ElementIterator& operator++() {
    current_ = from_.next_optional();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const ElementIterator& it, std::default_sentinel_t) {
    return !it.current_.has_value();
  }

 private:
  Iterator from_;
  std::optional<Element> current_;
};

template <typename... T>
class TypedRange;

// An immutable description of a sequence of elements. Cheap to copy; any number of iterators walk
// over one independently, from any thread. Nothing is read before that.
//
// Sizes and counts that make no sense throw InvalidArgument when the stage is added.
class Dataset {
 public:
  // Each element replaced by what `function` makes of it.
  Dataset map(Function function, const MapOptions& options = {}) const;
  // The elements for which `predicate` gives true.
  Dataset filter(Function predicate) const;
  // The elements of the datasets that `function` makes of each element, one after the other, or by
  // turns.
  Dataset flat_map(DatasetFunction function) const;
  Dataset interleave(DatasetFunction function, const InterleaveOptions& options = {}) const;

  // `size` consecutive elements stacked into one. Elements of different shapes are InvalidArgument
  // with both shapes.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const;
  // The reverse of batch: rows of the first dimension.
  Dataset unbatch() const;
  // Batches cut anew, without regard to where the old ones end: `sizes` in turn. A size of zero
  // gives an empty batch.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const;
  // Each batch of n cut into exactly `parts` batches of ceil(n / parts), the last ones smaller or
  // empty.
  Dataset split_batches(int64_t parts) const;

  // Each element is drawn from the next `buffer` ones at random.
  Dataset shuffle(int64_t buffer, const ShuffleOptions& options = {}) const;
  // The whole sequence `count` times; without a count for ever.
  Dataset repeat(int64_t count = -1) const;
  Dataset take(int64_t count) const;
  Dataset skip(int64_t count) const;
  // Up to the first element for which `predicate` gives false.
  Dataset take_while(Function predicate) const;
  // The elements whose number modulo `count` is `index`.
  Dataset shard(int64_t count, int64_t index, const ShardOptions& options = {}) const;
  // Overlapping groups of `size` elements, each a dataset; the last ones may be shorter. Elements
  // of several tensors become as many datasets:
  //   numbers.window(3, {.shift = 1}).flat_map([](Dataset window) { return window.batch(3); });
  Dataset window(int64_t size, const WindowOptions& options = {}) const;
  // Keeps the elements of the first complete pass, in which none failed, in memory, or in a file
  // for other runs too.
  Dataset cache() const;
  Dataset cache(const std::string& file) const;
  // Up to `depth` elements made in advance by a thread. kAutotune: as deep as keeps the consumer
  // from waiting, at most 16, or as many as make up 1 MB; no thread as long as elements take less
  // time to make than to hand over.
  Dataset prefetch(int depth = kAutotune) const;
  // (number, element), from `start` on.
  Dataset enumerate(int64_t start = 0) const;
  // `function` maps (state, element) to (new state, output).
  Dataset scan(Element initial_state, Function function) const;
  // Batches of elements of about the same length, padded: bucket i holds lengths below
  // boundaries[i], the last one the rest; sizes[i] is the batch size of bucket i.
  Dataset bucket_by_length(Function length, std::vector<int64_t> boundaries,
                           std::vector<int64_t> sizes, const BucketOptions& options = {}) const;
  Dataset concatenate(const Dataset& other) const;
  Dataset options(const DatasetOptions& options) const;

  // Number of elements, kInfinite or kUnknownCardinality. For idx and NPY files this and
  // element_spec() stand in their headers, which are read.
  int64_t cardinality() const;
  // What is known of the elements; nullopt behind a stage whose function only running would tell.
  std::optional<ElementSpec> element_spec() const;
  // The options in force at the end.
  DatasetOptions options() const;

  Iterator iterate() const;
  // Goes on where Iterator::save() was called, on this dataset or one built the same way. Throws
  // InvalidArgument when `position` is damaged or belongs to a different dataset.
  Iterator iterate(const std::string& position) const;
  ElementIterator begin() const { return ElementIterator(iterate()); }
  std::default_sentinel_t end() const { return {}; }
  // for (auto [image, label] : dataset.as<Tensor, int64_t>())
  template <typename... T>
  TypedRange<T...> as() const;
  // The value after `function`, which maps (value, element) to a new value, has seen all elements.
  Element reduce(Element initial, Function function) const;

  // The description as bytes, for a process elsewhere. Throws FailedPrecondition naming the first
  // stage whose function is not registered.
  std::string serialize() const;
  // Throws InvalidArgument for damaged bytes, NotFound for a function that this process does not
  // know.
  static Dataset deserialize(const std::string& bytes);
  // The stages from the source on: "Range -> Map -> Batch(4)".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Dataset& dataset);

 private:
  friend struct internal::DatasetAccess;
  explicit Dataset(std::shared_ptr<const internal::Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const internal::Node> node_;
};

// The elements of a dataset as tuples of C++ values.
template <typename... T>
class TypedRange {
 public:
  explicit TypedRange(Dataset dataset) : dataset_(std::move(dataset)) {}

  class iterator {
   public:
    explicit iterator(ElementIterator from) : from_(std::move(from)) {}
    std::tuple<T...> operator*() const {
      auto pack = [](T... parts) { return std::tuple<T...>(std::move(parts)...); };
      return internal::call_with(pack, *from_);
    }
    iterator& operator++() {
      ++from_;
      return *this;
    }
    friend bool operator==(const iterator& it, std::default_sentinel_t end) {
      return it.from_ == end;
    }

   private:
    ElementIterator from_;
  };
  iterator begin() const { return iterator(dataset_.begin()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Dataset dataset_;
};

template <typename... T>
TypedRange<T...> Dataset::as() const {
  return TypedRange<T...>(*this);
}

// One element.
Dataset from_tensors(Element element);
// The rows of the first dimension. All tensors must have equally many (InvalidArgument).
Dataset from_tensor_slices(Element element);
template <std::convertible_to<Tensor>... More>
Dataset from_tensor_slices(const Tensor& first, const Tensor& second, const More&... more) {
  return from_tensor_slices(Element::tuple(std::vector<Tensor>{first, second, Tensor(more)...}));
}
// int64 numbers from `start` on, below `stop` (above, for a negative step).
Dataset range(int64_t stop);
Dataset range(int64_t start, int64_t stop, int64_t step = 1);
Dataset generator(GeneratorFunction function);
// Tuples of one element each; ends with the shortest.
Dataset zip(std::vector<Dataset> datasets);
Dataset concatenate(std::vector<Dataset> datasets);
// Each element from one of them, chosen at random.
Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options = {});

// What readers make of bad input: DataLoss naming the file and the record or line, after which the
// next file is still readable. Files compressed with gzip or zstd are recognised by their content.

// The names of the files that match shell patterns, sorted. Throws NotFound when a pattern matches
// nothing.
Dataset files(const std::vector<std::string>& patterns);
// Names of files, in each reader: a list, or a dataset of strings, which may be shuffled.
class Files {
 public:
  Files(const char* path) : Files(std::vector<std::string>{path}) {}
  Files(const std::string& path) : Files(std::vector<std::string>{path}) {}
  Files(std::initializer_list<std::string> paths) : Files(std::vector<std::string>(paths)) {}
  Files(const std::vector<std::string>& paths);
  Files(Dataset names) : names_(std::move(names)) {}
  const Dataset& names() const { return names_; }

 private:
  Dataset names_;
};

struct TextOptions {
  int64_t skip_lines = 0;             // at the start of each file
  int64_t max_line_bytes = 16 << 20;  // a longer line is DataLoss
};
// Lines without their ends ("\n" or "\r\n").
Dataset text_lines(const Files& files, const TextOptions& options = {});

struct CsvColumn {
  DType dtype = kFloat32;
  // For an empty field; without it an empty field is DataLoss.
  std::optional<Tensor> fallback = std::nullopt;
};
struct CsvOptions {
  bool header = true;                // the first line of each file names the columns
  std::vector<int64_t> select = {};  // numbers of the columns to read, ascending; default: all
  char delimiter = ',';
  int64_t max_record_bytes = 16 << 20;  // a longer record is DataLoss
};
// Records of RFC 4180 as tuples of scalars, one per column of `columns`, which lists what is read.
Dataset csv(const Files& files, std::vector<CsvColumn> columns, const CsvOptions& options = {});

// Records of `bytes` bytes as strings, between `header` and `footer` bytes that are left out.
struct FixedLengthOptions {
  int64_t header = 0;
  int64_t footer = 0;
};
Dataset fixed_length_records(const Files& files, int64_t bytes,
                             const FixedLengthOptions& options = {});
// (image (3, 32, 32) uint8, label int64), of CIFAR's binary files.
Dataset cifar10(const Files& files);
// (image, coarse label, fine label).
Dataset cifar100(const Files& files);

struct TFRecordOptions {
  bool check_crc = true;
  int64_t max_record_bytes = int64_t{1} << 30;  // a longer record is DataLoss
};
// Records as strings.
Dataset tfrecord(const Files& files, const TFRecordOptions& options = {});

// One feature of a tf.Example: float32, int64 or string.
struct Feature {
  DType dtype = kFloat32;
  // An unknown first size takes as many values as there are.
  Shape shape = {};
  // For examples that lack the feature; without it that is InvalidArgument.
  std::optional<Tensor> fallback = std::nullopt;
};
using Features = std::map<std::string, Feature>;
// A serialized tf.Example as a map of tensors. Throws InvalidArgument naming the feature.
Element parse_example(const std::string& bytes, const Features& features);
Function example_parser(Features features);
// The reverse: each tensor of a map (float32, int64, string, or an integer that fits) as a feature.
std::string make_example(const Element& element);

// The whole of a file of the MNIST family (idx), plain or compressed with gzip or zstd. Throws
// NotFound, or DataLoss saying what is wrong with the file.
Tensor read_idx(const std::string& path);
// Rows of idx files, read as they are needed: a batch is read from the file straight into its
// memory.
Dataset idx(const Files& files);
// NumPy's array files; C and Fortran order, either byte order.
Tensor read_npy(const std::string& path);
// The arrays of an .npz archive by name.
std::map<std::string, Tensor> read_npz(const std::string& path);
// Rows of .npy files, read as they are needed.
Dataset npy(const Files& files);
void write_npy(const std::string& path, const Tensor& tensor);

// Writes TFRecord files. close() reports what the destructor can only log.
class TFRecordWriter {
 public:
  // Throws when the file cannot be made.
  explicit TFRecordWriter(const std::string& path);
  ~TFRecordWriter();
  TFRecordWriter(const TFRecordWriter&) = delete;
  TFRecordWriter& operator=(const TFRecordWriter&) = delete;

  void write(std::string_view record);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Training and test set: (image (28, 28) uint8, label uint8).
struct TrainAndTest {
  Dataset train;
  Dataset test;
};
// The four files of the set, compressed or not, in `directory`. Throws NotFound naming the missing
// file and where it comes from.
TrainAndTest mnist(const std::string& directory);
TrainAndTest fashion_mnist(const std::string& directory = "/usr/share/datasets/fashion-mnist");

}  // namespace cohort::data

namespace cohort {
using Iterator = data::Iterator;
}
