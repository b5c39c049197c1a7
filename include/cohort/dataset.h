#pragma once

#include <compare>

#include "cohort/element.h"
#include "cohort/internal/data_function.h"
#include "cohort/internal/named_function.h"
#include "cohort/internal/number_or.h"

// Input pipelines. A dataset describes where elements come from and which stages they pass;
// cohort/readers.h has the datasets that read files.
//
//   Tensor images = ones({1000, 784}), labels = zeros({1000}, kInt64);
//   auto train = data::from_tensor_slices(images, labels)
//                    .shuffle(10'000)
//                    .batch(256)
//                    .map([](Tensor x, Tensor y) { return std::tuple(x / 255.f, y); })
//                    .prefetch();
//   for (auto [image, label] : train) std::cout << image.shape() << '\n';
namespace cohort::data {

class Dataset;

// Cardinality is the number of elements of a dataset: a number, kInfinite or kUnknownCardinality.
// It compares with numbers. kInfinite is larger than every number; kUnknownCardinality is neither
// smaller nor larger than any.
//
//   if (dataset.cardinality() == data::kInfinite) dataset = dataset.take(1000);
class Cardinality {
 public:
  // Throws InvalidArgument if `count` is negative.
  constexpr Cardinality(int64_t count);
  static constexpr Cardinality infinite() { return Cardinality(Kind::Infinite); }
  static constexpr Cardinality unknown() { return Cardinality(Kind::Unknown); }

  constexpr bool is_number() const { return kind_ == Kind::Number; }
  // Throws FailedPrecondition unless the cardinality is a number.
  constexpr int64_t count() const;
  std::string to_string() const;  // "4", "infinite" or "unknown"

  friend constexpr bool operator==(Cardinality, Cardinality) = default;
  friend constexpr std::partial_ordering operator<=>(Cardinality a, Cardinality b);
  friend std::ostream& operator<<(std::ostream& out, Cardinality cardinality);

 private:
  enum class Kind : int8_t { Number, Infinite, Unknown };
  explicit constexpr Cardinality(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::Number;
  int64_t count_ = 0;
};
inline constexpr Cardinality kInfinite = Cardinality::infinite();
inline constexpr Cardinality kUnknownCardinality = Cardinality::unknown();

// IntOrAutotune is a number of threads or of buffered elements, or kAutotune: the library chooses
// the number. Stages throw InvalidArgument if the number is negative.
using IntOrAutotune = internal::NumberOr<int, struct AutotuneTag>;
inline constexpr IntOrAutotune kAutotune = IntOrAutotune::no_number();

// ShardCount is the number of shards of Dataset::shard(), or kShardHint: the strategy that
// distributes the dataset sets count and index, under AutoShardPolicy::Hint.
using ShardCount = internal::NumberOr<int64_t, struct ShardHintTag>;
inline constexpr ShardCount kShardHint = ShardCount::no_number();

// How a strategy divides a dataset among workers. Auto means File if the dataset reads files,
// whatever their number, and Data otherwise. Distributing the dataset throws InvalidArgument if it
// has fewer files or elements than there are workers. The numbers are TensorFlow's, and serialized
// datasets contain them.
enum class AutoShardPolicy : int8_t { Off = -1, Auto = 0, File = 1, Data = 2, Hint = 3 };

// Settings of a whole dataset, for Dataset::options. An empty field keeps the value of an earlier
// stage.
struct DatasetOptions {
  std::optional<AutoShardPolicy> auto_shard_policy = std::nullopt;
  // If false, parallel stages may deliver elements in the order in which they become ready.
  std::optional<bool> deterministic = std::nullopt;
  // The most threads of each parallel stage whose own option is kAutotune. Default: the number of
  // cores.
  std::optional<int> threads = std::nullopt;
};

// Options of Dataset::map.
struct MapOptions {
  IntOrAutotune parallel = 1;                        // threads; kAutotune: one per core
  std::optional<bool> deterministic = std::nullopt;  // default: the dataset's, else true
  std::string name = "Map";                          // the stage's name in errors
};

// Options of Dataset::batch and Dataset::rebatch.
struct BatchOptions {
  bool drop_remainder = false;  // drop a last batch that is short
  IntOrAutotune parallel = 1;   // threads that copy; kAutotune: one per core
};

// Options of Dataset::padded_batch.
struct PaddedBatchOptions {
  // The padded shape of each tensor. An unknown size is padded to the largest of the batch. Empty:
  // all sizes are.
  std::vector<Shape> shapes = {};
  // The scalar that pads each tensor. Empty: zeros and empty strings.
  std::vector<Tensor> padding = {};
  bool drop_remainder = false;
};

// Options of Dataset::shuffle.
struct ShuffleOptions {
  std::optional<uint64_t> seed = std::nullopt;  // default: random
  bool reshuffle_each_iteration = true;
};

// Options of Dataset::interleave.
struct InterleaveOptions {
  int64_t cycle = 2;           // datasets that are read in turn
  int64_t block = 1;           // consecutive elements of each dataset
  IntOrAutotune parallel = 1;  // not 1: a thread reads ahead for each dataset
};

// Options of Dataset::window.
struct WindowOptions {
  int64_t shift = 0;   // between the starts of two windows; 0: the window's size
  int64_t stride = 1;  // between the elements of a window
  bool drop_remainder = false;
};

// Options of Dataset::shard.
struct ShardOptions {
  // If true, every shard throws InvalidArgument if there are fewer elements than shards.
  bool require_each = false;
};

// Options of Dataset::bucket_by_length.
struct BucketOptions {
  bool drop_remainder = false;
  bool pad_to_boundary = false;      // pad to the bucket's largest length instead of the batch's
  std::vector<Tensor> padding = {};  // as in PaddedBatchOptions
};

// Options of sample_from.
struct SampleOptions {
  std::vector<double> weights = {};  // default: equal
  std::optional<uint64_t> seed = std::nullopt;
  bool stop_on_empty_dataset = false;  // default: go on with the other datasets
};

// Function maps an element to an element, for the stages of a dataset. It is made implicitly from a
// callable with one parameter for each part of the element. A parameter is a Tensor, an Element or
// a C++ value: a number, std::string, std::vector or std::span<const T>. The callable returns such
// a value, a std::tuple of them or a std::map by name. A traced function (cohort::function) of
// tensors works as well. A callable of numbers, spans of numbers and std::arrays runs without
// making tensors, which makes it the fastest kind of map.
//
// Parallel stages call the function from several threads at the same time. name() is the name under
// which the function was registered. If the name is empty, the function cannot be sent to another
// process.
class Function : public internal::NamedFunction<Element(const Element&)> {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, Function>) Function(F&& callable);

 private:
  friend struct internal::DatasetAccess;
  Function() = default;

  std::shared_ptr<const internal::RowFunction> rows_;
};

// DatasetFunction maps an element to a dataset, for flat_map and interleave.
class DatasetFunction : public internal::NamedFunction<Dataset(const Element&)> {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, DatasetFunction>) DatasetFunction(F&& callable);

 private:
  friend struct internal::DatasetAccess;
  DatasetFunction() = default;
};

// Returns the next element of a generator, or nullopt at the end.
using NextFunction = std::function<std::optional<Element>()>;
// GeneratorFunction is called at the start of each iteration and returns the NextFunction that
// makes the elements of that iteration.
class GeneratorFunction : public internal::NamedFunction<NextFunction()> {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, GeneratorFunction> &&
           std::is_invocable_r_v<NextFunction, F&>) GeneratorFunction(F&& callable)
      : NamedFunction(std::forward<F>(callable)) {}

 private:
  friend struct internal::DatasetAccess;
  GeneratorFunction() = default;
};

// Registers a function under a name by which serialized datasets refer to it, and returns the
// function to use in stages. The process that deserializes the dataset must have registered a
// function of the same name. Throws AlreadyExists if the name is taken.
Function register_function(const std::string& name, Function function);
DatasetFunction register_dataset_function(const std::string& name, DatasetFunction function);
GeneratorFunction register_generator(const std::string& name, GeneratorFunction function);

// OptionalElement is an element that may be missing, for code that function() traces: whether the
// element exists is known only when the traced function runs.
//
//   Iterator it = dataset.iterator();
//   auto batch = it.next_as_optional();
//   return cond(
//       batch.has_value(), [&] { return sum(batch.value()[0]); }, [&] { return Tensor(0.f); });
template <typename E>
class OptionalElement {
 public:
  OptionalElement(Tensor has_value, std::function<E()> value)
      : has_value_(std::move(has_value)), value_(std::move(value)) {}

  // A bool scalar.
  const Tensor& has_value() const { return has_value_; }
  // Throws InvalidArgument if the element is missing; in traced code, when the function runs.
  E value() const { return value_(); }

 private:
  Tensor has_value_;
  std::function<E()> value_;
};

// Iterator delivers the elements of a dataset. Copies share the position. Any thread may call it:
// each element goes to one caller. The last copy to be destroyed stops the iterator's threads, and
// waits for a user's function that is running.
class Iterator {
 public:
  // Returns the next element. Throws OutOfRange at the end. An error in a stage names the stage and
  // the element; the next call continues after that element.
  //
  // In code that function() traces, the element's tensors are symbols, and each call of the traced
  // function takes the next element. Throws FailedPrecondition there if element_spec() is unknown.
  Element next(Site site = Site::here());
  // Returns nullopt at the end. Throws FailedPrecondition in traced code, because C++ cannot branch
  // there on what a later run finds: use next_as_optional() or reduce().
  std::optional<Element> next_optional();
  // Like next_optional(), for code that may be traced.
  OptionalElement<Element> next_as_optional(Site site = Site::here());

  // Computes state = body(state, element) for each remaining element and returns the last state. In
  // code that function() traces, this becomes one loop, which takes the elements that remain when
  // the function runs. The body must keep the number, dtypes and shapes of the state (see
  // while_loop).
  using LoopBody = std::function<std::vector<Tensor>(std::span<const Tensor>, const Element&)>;
  std::vector<Tensor> reduce(const std::vector<Tensor>& initial, const LoopBody& body,
                             Site site = Site::here());
  // Calls body(element) for each remaining element and returns their number.
  Tensor for_each(const std::function<void(const Element&)>& body, Site site = Site::here());

  // Returns what is known about the elements. If the dataset does not know it, this makes the next
  // element, describes that with an unknown first size, and keeps it for next(). Returns nullopt if
  // no element is left.
  std::optional<ElementSpec> element_spec() const;

  // Returns the position as bytes, including the buffers of shuffles and the results of parallel
  // stages. Dataset::iterator(position) continues with exactly the elements that this iterator
  // would have delivered. Throws FailedPrecondition if a source does not know its position.
  std::string save();

 private:
  friend struct cohort::internal::Access;
  explicit Iterator(std::shared_ptr<internal::IteratorBase> base);
  std::string kind() const;

  std::shared_ptr<internal::IteratorBase> base_;
  Tensor handle_;
};

class ElementIterator;  // an input iterator that ends with the data
template <typename... T>
class TypedRange;

// Dataset is an immutable description of a sequence of elements. It is cheap to copy. Any number of
// iterators walk over one dataset independently, from any thread. Nothing is read before the first
// iteration.
//
// Each stage returns a new dataset. A stage throws InvalidArgument if its sizes or counts make no
// sense.
class Dataset {
 public:
  // Replaces each element by what `function` returns for it.
  Dataset map(Function function, const MapOptions& options = {}) const;
  // Keeps the elements for which `predicate` returns true.
  Dataset filter(Function predicate) const;
  // Replaces each element by the elements of the dataset that `function` returns for it. flat_map
  // reads these datasets one after the other, interleave several of them in turn.
  Dataset flat_map(DatasetFunction function) const;
  Dataset interleave(DatasetFunction function, const InterleaveOptions& options = {}) const;

  // Stacks `size` consecutive elements into one. Iterating throws InvalidArgument, with both
  // shapes, if elements have different shapes.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const;
  // The reverse of batch: delivers the rows of the first dimension. This stage, rebatch and
  // split_batches throw InvalidArgument if a part of an element is a scalar. If element_spec() is
  // unknown, such as after map() of tensors, iterating throws the error at the first element.
  Dataset unbatch() const;
  // Cuts the rows of all batches into new batches of `sizes` in turn, regardless of where the old
  // batches end. A size of zero makes an empty batch.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const;
  // Cuts each batch of n rows into exactly `parts` batches of ceil(n / parts) rows. The last
  // batches are smaller or empty.
  Dataset split_batches(int64_t parts) const;

  // Draws each element at random from the next `buffer` elements. Each iterator over one dataset
  // has its own order, which follows from the seed and from the number of iterators before. A
  // strategy counts the passes over a dataset that it distributes by itself, equally on all
  // workers, and all workers take the chief's seed if none is given.
  Dataset shuffle(int64_t buffer, const ShuffleOptions& options = {}) const;
  // Repeats the whole sequence `count` times, or for ever without a count. As in TensorFlow,
  // repeat(-1) repeats for ever, too; every other negative count is InvalidArgument.
  Dataset repeat(std::optional<int64_t> count = std::nullopt) const;
  Dataset take(int64_t count) const;
  Dataset skip(int64_t count) const;
  // Ends before the first element for which `predicate` returns false.
  Dataset take_while(Function predicate) const;
  // Keeps the elements whose number modulo `count` is `index`. All stages before it keep their
  // order, even if they are not deterministic, because the other shards must count the same
  // elements.
  Dataset shard(ShardCount count, int64_t index, const ShardOptions& options = {}) const;
  // Groups of `size` elements that may overlap, each group a dataset. The last groups may be
  // shorter. If an element has several tensors, a group is a tuple of as many datasets.
  //
  //   data::Dataset triples = data::range(10).window(3, {.shift = 1}).flat_map(
  //       [](data::Dataset window) { return window.batch(3); });
  Dataset window(int64_t size, const WindowOptions& options = {}) const;
  // Stores the elements of the first complete pass without an error, in memory, or in a file that
  // later runs use, too.
  Dataset cache() const;
  Dataset cache(const std::string& file) const;
  // Makes up to `depth` elements in advance, in a thread. kAutotune: as many elements as keep the
  // consumer from waiting, at most 16, or as many as have 1 MB together if that is more; no thread
  // runs while an element takes less time to make than to pass on.
  Dataset prefetch(IntOrAutotune depth = kAutotune) const;
  // Makes pairs (number, element). The first number is `start`.
  Dataset enumerate(int64_t start = 0) const;
  // `function` maps (state, element) to (new state, output). The outputs are the elements.
  Dataset scan(Element initial_state, Function function) const;
  // Makes padded batches of elements of similar length. Bucket i takes lengths below boundaries[i],
  // the last bucket takes all others, and sizes[i] is the batch size of bucket i.
  Dataset bucket_by_length(Function length, std::vector<int64_t> boundaries,
                           std::vector<int64_t> sizes, const BucketOptions& options = {}) const;
  Dataset concatenate(const Dataset& other) const;
  Dataset options(const DatasetOptions& options) const;

  // Returns the number of elements, kInfinite or kUnknownCardinality. This function and
  // element_spec() read the headers of idx and NPY files.
  Cardinality cardinality() const;
  // Returns what is known about the elements, or nullopt after a stage whose function must run
  // first.
  std::optional<ElementSpec> element_spec() const;
  // Returns the options in force at the end.
  DatasetOptions options() const;

  // In code that function() traces, each call of the traced function starts from the beginning.
  Iterator iterator() const;
  // Continues at a position that Iterator::save() returned, for this dataset or one built the same
  // way. Throws InvalidArgument if `position` is damaged or belongs to a different dataset.
  Iterator iterator(const std::string& position) const;
  ElementIterator begin() const;
  std::default_sentinel_t end() const { return {}; }
  // Iterates over C++ values: for (auto [image, label] : dataset.as<Tensor, int64_t>())
  template <typename... T>
  TypedRange<T...> as() const;
  // Returns the value after `function`, which maps (value, element) to a new value, was called for
  // all elements.
  Element reduce(Element initial, Function function) const;

  // Returns the description as bytes, for another process. Throws FailedPrecondition, naming the
  // stage, at the first stage whose function is not registered.
  std::string serialize() const;
  // Throws InvalidArgument if the bytes are damaged, NotFound if this process did not register a
  // function that they name.
  static Dataset deserialize(const std::string& bytes);
  // Returns the stages, beginning with the source: "Range -> Map -> Batch(4)".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Dataset& dataset);

 private:
  friend struct internal::DatasetAccess;
  explicit Dataset(std::shared_ptr<const internal::Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const internal::Node> node_;
};

// A dataset of one element.
Dataset from_tensors(Element element);
// The elements are the rows of the first dimension. Throws InvalidArgument if the tensors have
// different numbers of rows.
Dataset from_tensor_slices(Element element);
template <std::convertible_to<Tensor>... More>
Dataset from_tensor_slices(const Tensor& first, const Tensor& second, const More&... more) {
  return from_tensor_slices(Element::tuple(std::vector<Tensor>{first, second, Tensor(more)...}));
}
// int64 numbers that begin at `start` and end before `stop`. A negative step counts down.
Dataset range(int64_t stop);
Dataset range(int64_t start, int64_t stop, int64_t step = 1);
// The types of the elements are unknown until the first element is made. element_spec() of an
// iterator, and a traced function that takes one, make the first element early and deliver it
// later.
Dataset generator(GeneratorFunction function);
// The same for elements of known types. Sizes may be unknown. Iterating throws InvalidArgument if
// an element is different.
Dataset generator(GeneratorFunction function, ElementSpec elements);
// Tuples of one element of each dataset. Ends with the shortest dataset.
Dataset zip(std::vector<Dataset> datasets);
Dataset concatenate(std::vector<Dataset> datasets);
// Takes each element from one of the datasets, chosen at random.
Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options = {});

}  // namespace cohort::data

namespace cohort {
using Iterator = data::Iterator;
}

#include "cohort/internal/dataset_inl.h"  // IWYU pragma: export
