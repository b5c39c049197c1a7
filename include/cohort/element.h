#pragma once

#include <tuple>

#include "cohort/internal/access.h"
#include "cohort/tensor.h"

namespace cohort::data {

class Dataset;  // cohort/dataset.h

class Element;
// Element is one element of a dataset: a tensor, a tuple of elements, or a map from names to
// elements. It is cheap to copy. An element that is one tensor converts to the tensor. Structured
// bindings take an element apart. Without unpack() or as() they expect two tensors:
//
//   for (auto [image, label] : dataset) model(image);
//   for (const data::Element& e : dataset) auto [a, b, c] = e.unpack<3>();
//   for (auto [v, n, text] : dataset.as<Tensor, int64_t, std::string>()) model(v);
//
// A part that window() made is a dataset in memory and converts to a Dataset.
class Element {
 public:
  Element();  // the empty tuple
  Element(Tensor tensor);
  template <TensorElement T>
  Element(T value) : Element(Tensor::from(std::span<const T>(&value, 1), Shape{})) {}

  static Element tuple(std::vector<Element> parts);
  static Element tuple(std::vector<Tensor> parts);
  // The parts are kept in the order of their names. Throws InvalidArgument if two names are equal.
  static Element map(std::vector<std::pair<std::string, Element>> parts);

  bool is_tensor() const;
  bool is_tuple() const;
  bool is_map() const;
  bool is_dataset() const;
  // The number of parts; 1 for a tensor.
  size_t size() const;
  // Returns a part of a tuple or map. Throws InvalidArgument if the element has no such parts, or
  // NotFound, listing the names, if no part has the name.
  Element operator[](size_t index) const;
  Element operator[](std::string_view name) const;
  std::vector<std::string> names() const;  // of a map

  // Returns the tensor of an element that is one. Throws InvalidArgument for other kinds.
  Tensor tensor() const;
  operator Tensor() const { return tensor(); }
  // Returns the dataset of an element that is one. Throws InvalidArgument for other kinds.
  Dataset dataset() const;
  operator Dataset() const;
  template <TensorElement T>
  T to() const {
    return tensor().to<T>();
  }
  // Returns all tensors from left to right, however deeply they nest.
  std::vector<Tensor> tensors() const { return tensors_; }

  // Returns the N tensors of the element, from left to right. Throws InvalidArgument if the element
  // does not have N tensors.
  template <size_t N>
  std::array<Tensor, N> unpack() const;
  // Returns tensor `I` of an element of two, for structured bindings. Throws InvalidArgument unless
  // the element has two tensors.
  template <size_t I>
  Tensor get() const;

  // A tensor prints as itself, a tuple as "(a, b)", a map as "{'name': a}", a dataset as "[a, b]".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Element& element);

 private:
  friend struct internal::ElementAccess;
  Element(std::shared_ptr<const internal::Structure> structure, std::vector<Tensor> tensors);
  void check_tensors(size_t count) const;

  std::shared_ptr<const internal::Structure> structure_;
  std::vector<Tensor> tensors_;
};

// ElementSpec describes all elements of a dataset: their structure, dtypes and shapes.
class ElementSpec {
 public:
  // Describes one element, so that all sizes are known.
  explicit ElementSpec(const Element& element);
  explicit ElementSpec(TensorSpec spec);
  // Takes the structure of `like` and one spec per tensor, from left to right. Throws
  // InvalidArgument unless `like` has as many tensors.
  ElementSpec(const ElementSpec& like, std::vector<TensorSpec> tensors);
  // Describe tuples and maps of tensors as Element::tuple() and Element::map() make them.
  static ElementSpec tuple(std::vector<TensorSpec> tensors);
  static ElementSpec map(std::vector<std::pair<std::string, TensorSpec>> tensors);

  std::vector<TensorSpec> tensors() const;
  // Returns "(float32 (None, 28, 28), uint8 (None,))".
  std::string to_string() const;
  friend bool operator==(const ElementSpec& a, const ElementSpec& b);
  friend std::ostream& operator<<(std::ostream& out, const ElementSpec& spec);

 private:
  friend struct cohort::internal::Access;
  ElementSpec(std::shared_ptr<const internal::Structure> structure,
              std::vector<TensorSpec> tensors);

  std::shared_ptr<const internal::Structure> structure_;
  std::vector<TensorSpec> tensors_;
};

}  // namespace cohort::data

#include "cohort/internal/element_inl.h"  // IWYU pragma: export
