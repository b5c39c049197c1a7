#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/dataset_options.h"
#include "cohort/element.h"
#include "cohort/internal/data_function.h"
#include "cohort/site.h"

// Datasets, the stages they are made of, and the walks over them.
namespace cohort::data {

class Dataset;

namespace internal {
class Node;
class IteratorBase;
struct DatasetAccess;
}  // namespace internal

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

// An element that may be missing, for code that function() traces: whether there is one is known
// only when the function runs.
//   auto batch = it.next_as_optional();
//   return cond(batch.has_value(), [&] { return loss(batch.value()); }, [&] { return zero; });
template <typename E>
class OptionalElement {
 public:
  OptionalElement(Tensor has_value, std::function<E()> value)
      : has_value_(std::move(has_value)), value_(std::move(value)) {}

  // A bool scalar.
  const Tensor& has_value() const { return has_value_; }
  // Throws InvalidArgument when there is none; in traced code, when the function runs.
  E value() const { return value_(); }

 private:
  Tensor has_value_;
  std::function<E()> value_;
};

// A walk over a dataset's elements. Copies share the position. Thread-safe: each element goes to
// one caller. When the last copy is gone, its threads stop; a user's function that is running is
// waited for.
class Iterator {
 public:
  explicit Iterator(std::shared_ptr<internal::IteratorBase> base);

  // Throws OutOfRange at the end. An error in a stage says which stage and which element; calling
  // again goes on after that element.
  //
  // In code that function() traces, the element's tensors are symbols, and each call of the traced
  // function takes the next element. FailedPrecondition when there is no element_spec().
  Element next(Site site = Site::here());
  // nullopt at the end. Throws FailedPrecondition in code that is traced: C++ cannot branch there
  // on what a later run finds. Use next_as_optional() or reduce().
  std::optional<Element> next_optional();
  // next_optional() for code that may be traced.
  OptionalElement<Element> next_as_optional(Site site = Site::here());

  // state = body(state, element) for each element that is left; returns the last state. In code
  // that function() traces this becomes one loop, which takes as many elements as there are when
  // the function runs. The body keeps number, dtypes and shapes of the state (see while_loop).
  using LoopBody = std::function<std::vector<Tensor>(std::span<const Tensor>, const Element&)>;
  std::vector<Tensor> reduce(const std::vector<Tensor>& initial, const LoopBody& body,
                             Site site = Site::here());
  // Calls body(element) for each element that is left; returns how many there were.
  Tensor for_each(const std::function<void(const Element&)>& body, Site site = Site::here());

  // What is known of the elements: what the dataset knows, else what the next element shows, with
  // its first size unknown; it is made for that, and next() gives it. nullopt when there is none.
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

  // Each element is drawn from the next `buffer` ones at random. Each iterator over one dataset
  // has an order of its own, which follows from the seed and from how many there were before. A
  // strategy counts the passes over what it distributes by itself, the same on all workers, which
  // take the chief's seed where none is given.
  Dataset shuffle(int64_t buffer, const ShuffleOptions& options = {}) const;
  // The whole sequence `count` times; without a count for ever.
  Dataset repeat(int64_t count = -1) const;
  Dataset take(int64_t count) const;
  Dataset skip(int64_t count) const;
  // Up to the first element for which `predicate` gives false.
  Dataset take_while(Function predicate) const;
  // The elements whose number modulo `count` is `index`. All stages before it keep their order,
  // deterministic or not: the other shards count the same elements.
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
  // What is known of the elements; nullopt after a stage whose function must run to tell.
  std::optional<ElementSpec> element_spec() const;
  // The options in force at the end.
  DatasetOptions options() const;

  // In code that function() traces, each call of the traced function walks from the beginning.
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
// What the elements are is not known before the first is made: element_spec() of an iterator, and
// a traced function that takes one, make it early and hand it on later.
Dataset generator(GeneratorFunction function);
// The same with what all elements are, of which sizes may be unknown. An element that is something
// else is InvalidArgument.
Dataset generator(GeneratorFunction function, ElementSpec elements);
// Tuples of one element each; ends with the shortest.
Dataset zip(std::vector<Dataset> datasets);
Dataset concatenate(std::vector<Dataset> datasets);
// Each element from one of them, chosen at random.
Dataset sample_from(std::vector<Dataset> datasets, const SampleOptions& options = {});

}  // namespace cohort::data

namespace cohort {
using Iterator = data::Iterator;
}
