#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "tensor/body.h"

namespace cohort::internal {

// What the elements of an iterator are made of, in terms that a node's attributes can hold.
struct ElementLayout {
  std::string structure;            // how the tensors hang together: "(Tensor, {'a': Tensor})"
  std::vector<int64_t> components;  // dtype and shape of each, as pack_specs writes them

  friend bool operator==(const ElementLayout&, const ElementLayout&) = default;
};
// "(Tensor, Tensor) of (float32 (2,), int64 ())"
std::string to_string(const ElementLayout& layout);
// Whether elements of `found` may be what was declared as `wanted`: sizes that one of them does not
// know agree with any.
bool is_compatible(const ElementLayout& found, const ElementLayout& wanted);

// The state behind an iterator's handle, from which IteratorNext takes elements. It is known here
// by what the op needs; src/data has the iterators. Thread-safe.
class ElementSource : public Resource {
 public:
  // Tells it from the process's other iterators.
  virtual const std::string& name() const = 0;
  // Throws FailedPrecondition when only running would tell.
  virtual const ElementLayout& layout() const = 0;
  // The tensors of the next element from left to right; nullopt at the end.
  virtual std::optional<std::vector<Tensor>> next_tensors() = 0;
  // The bytes from which another process builds an iterator over the same elements, from their
  // beginning. Throws FailedPrecondition when they depend on code of this process.
  virtual std::string describe_dataset() const = 0;
};

// Starts walks over one dataset: what a dataset is in a traced function, each call of which walks
// over it anew.
class ElementSourceMaker : public Resource {
 public:
  virtual std::shared_ptr<ElementSource> make_source() = 0;
};

// The source behind a handle. Throws InvalidArgument when it is another kind of resource.
ElementSource& source_of(const Tensor& handle);

// The next element of the iterator behind `handle`, whose elements are as `layout` says: at once,
// or as a node of the graph being built.
std::vector<Tensor> iterator_next(const Tensor& handle, const ElementLayout& layout, Site site);
// The same with a bool scalar before it that tells whether there was one: at the end it is false,
// and the other tensors are placeholders without a meaning.
std::vector<Tensor> iterator_next_optional(const Tensor& handle, const ElementLayout& layout,
                                           Site site);
// The handle of a new walk that the ElementSourceMaker behind `maker` starts.
Tensor start_iterator(const Tensor& maker, Site site);

// Whether `op` takes an element from an iterator.
bool takes_element(const OpDef& op);

}  // namespace cohort::internal
