#pragma once

// Definitions of the templates of datasets. Not for inclusion by users: include cohort/dataset.h.

#include "cohort/dataset.h"

namespace cohort::data {

template <typename F>
requires(!std::same_as<std::remove_cvref_t<F>, Function>) Function::Function(F&& callable)
    : call_([f = std::decay_t<F>(callable)](const Element& element) mutable {
        return internal::to_element(internal::call_with(f, element));
      }),
      rows_(internal::make_row_function<std::decay_t<F>>(callable)) {}

template <typename F>
requires(!std::same_as<std::remove_cvref_t<F>, DatasetFunction>)
    DatasetFunction::DatasetFunction(F&& callable)
    : call_([f = std::decay_t<F>(callable)](const Element& element) mutable {
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
