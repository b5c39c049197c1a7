#pragma once

// Definitions of the templates of datasets. Not for inclusion by users: include cohort/dataset.h.

#include "cohort/dataset.h"

namespace cohort::data {

namespace internal {
[[noreturn]] void raise_negative_cardinality(int64_t count);
[[noreturn]] void raise_no_count(std::string_view cardinality);
}  // namespace internal

constexpr Cardinality::Cardinality(int64_t count) : count_(count) {
  if (count < 0) internal::raise_negative_cardinality(count);
}

constexpr int64_t Cardinality::count() const {
  if (!is_number()) internal::raise_no_count(kind_ == Kind::Infinite ? "infinite" : "unknown");
  return count_;
}

constexpr std::partial_ordering operator<=>(Cardinality a, Cardinality b) {
  using Kind = Cardinality::Kind;
  if (a == b) return std::partial_ordering::equivalent;
  if (a.kind_ == Kind::Unknown || b.kind_ == Kind::Unknown) return std::partial_ordering::unordered;
  if (a.kind_ != b.kind_) return a.kind_ <=> b.kind_;
  return a.count_ <=> b.count_;
}

template <typename F>
requires(!std::same_as<std::remove_cvref_t<F>, Function>) Function::Function(F&& callable)
    : NamedFunction([f = std::decay_t<F>(callable)](const Element& element) mutable {
        return internal::to_element(internal::call_with(f, element));
      }),
      rows_(internal::make_row_function<std::decay_t<F>>(callable)) {}

template <typename F>
requires(!std::same_as<std::remove_cvref_t<F>, DatasetFunction>)
    DatasetFunction::DatasetFunction(F&& callable)
    : NamedFunction([f = std::decay_t<F>(callable)](const Element& element) mutable {
        return Dataset(internal::call_with(f, element));
      }) {}

// ElementIterator makes range-for work on a dataset: an input iterator that ends with the data.
class ElementIterator {
 public:
  using value_type = Element;
  using reference = const Element&;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  explicit ElementIterator(Iterator from);
  const Element& operator*() const { return *current_; }
  ElementIterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const ElementIterator& it, std::default_sentinel_t) {
    return !it.current_.has_value();
  }

 private:
  Iterator from_;
  std::optional<Element> current_;
};

inline ElementIterator Dataset::begin() const { return ElementIterator(iterator()); }

// TypedRange iterates over a dataset as tuples of C++ values. Dataset::as() returns it.
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

}  // namespace cohort::data
