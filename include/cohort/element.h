#pragma once

#include <algorithm>
#include <array>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cohort/tensor.h"

namespace cohort::data {

class Dataset;  // cohort/data.h

class Element;
namespace internal {
struct Structure;
struct ElementAccess;
// What replica `index` gets of an element: its own of one that was dealt out, else the whole.
// Throws InvalidArgument.
Element element_of_replica(const Element& element, size_t index);
}  // namespace internal

// One element of a dataset: a tensor, a tuple of elements, or a map from names to elements.
//
// A cheap value. An element that is one tensor converts to it. Structured bindings, whose number of
// names C++ wants to know beforehand:
//   for (auto [image, label] : dataset)                                // two tensors
//   for (const Element& e : dataset) auto [a, b, c] = e.unpack<3>();  // any number of tensors
//   for (auto [x, n, text] : dataset.as<Tensor, int64_t, std::string>())
// A part that window() made is a dataset in memory and converts to one.
class Element {
 public:
  Element();  // the empty tuple
  Element(Tensor tensor);
  template <TensorElement T>
  Element(T value) : Element(Tensor::from(std::span<const T>(&value, 1), Shape{})) {}

  static Element tuple(std::vector<Element> parts);
  static Element tuple(std::vector<Tensor> parts);
  // The parts are kept in the order of their names. Throws InvalidArgument when two names are
  // equal.
  static Element map(std::vector<std::pair<std::string, Element>> parts);

  bool is_tensor() const;
  bool is_tuple() const;
  bool is_map() const;
  bool is_dataset() const;
  // Number of parts; 1 for a tensor.
  size_t size() const;
  // Part of a tuple or map. Throws InvalidArgument, or NotFound with the names there are.
  Element operator[](size_t index) const;
  Element operator[](std::string_view name) const;
  std::vector<std::string> names() const;  // of a map

  // The tensor that this element is. Throws InvalidArgument for tuples and maps.
  Tensor tensor() const;
  operator Tensor() const { return tensor(); }
  // The dataset that this element is. Throws InvalidArgument for other kinds.
  Dataset dataset() const;
  operator Dataset() const;
  template <TensorElement T>
  T to() const {
    return tensor().to<T>();
  }
  // All tensors from left to right, however they nest.
  std::vector<Tensor> tensors() const { return tensors_; }

  // The tensors of an element that has N of them, from left to right. Throws InvalidArgument
  // otherwise.
  template <size_t N>
  std::array<Tensor, N> unpack() const {
    check_tensors(N);
    std::array<Tensor, N> parts;
    std::copy_n(tensors_.begin(), N, parts.begin());
    return parts;
  }
  // Tensor `I` of two, for structured bindings. Throws InvalidArgument unless there are two.
  template <size_t I>
  Tensor get() const {
    check_tensors(2);
    return tensors_[I];
  }

  // A tensor prints as itself, a tuple as "(a, b)", a map as "{'name': a}", a
  // dataset as "[a, b]".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Element& element);

 private:
  friend struct internal::ElementAccess;
  Element(std::shared_ptr<const internal::Structure> structure, std::vector<Tensor> tensors);
  void check_tensors(size_t count) const;

  std::shared_ptr<const internal::Structure> structure_;
  std::vector<Tensor> tensors_;
};

// The dtype and the shape of a tensor that is yet to come; sizes may be unknown.
struct TensorSpec {
  DType dtype = kFloat32;
  Shape shape = Shape::unknown();

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// What is known about all elements of a dataset.
class ElementSpec {
 public:
  // Of an element that exists: all sizes are known.
  explicit ElementSpec(const Element& element);
  explicit ElementSpec(TensorSpec spec);
  // One per tensor, from left to right. Throws InvalidArgument unless their number fits `like`.
  ElementSpec(const ElementSpec& like, std::vector<TensorSpec> tensors);
  ElementSpec(std::shared_ptr<const internal::Structure> structure,
              std::vector<TensorSpec> tensors);
  // Of tuples and maps of tensors, as Element::tuple() and Element::map() make them.
  static ElementSpec tuple(std::vector<TensorSpec> tensors);
  static ElementSpec map(std::vector<std::pair<std::string, TensorSpec>> tensors);

  std::vector<TensorSpec> tensors() const { return tensors_; }
  const std::shared_ptr<const internal::Structure>& structure() const { return structure_; }
  // "(float32 (None, 28, 28), uint8 (None,))".
  std::string to_string() const;
  friend bool operator==(const ElementSpec& a, const ElementSpec& b);
  friend std::ostream& operator<<(std::ostream& out, const ElementSpec& spec);

 private:
  std::shared_ptr<const internal::Structure> structure_;
  std::vector<TensorSpec> tensors_;
};

}  // namespace cohort::data

template <>
struct std::tuple_size<cohort::data::Element> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, cohort::data::Element> {
  using type = cohort::Tensor;
};
