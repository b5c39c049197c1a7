// Examples of the ops of iterators, on iterators that are made for each call.

#include "cohort/dataset.h"
#include "conformance/examples/graph.h"
#include "ops/element_source.h"

namespace cohort::testing {
namespace {

// The tensor that stands for an iterator over the dataset.
Tensor handle_of(const data::Dataset& dataset) {
  return internal::Access::handle(dataset.iterator());
}

Tensor pairs() {
  return handle_of(data::from_tensor_slices(Tensor({{1.f, 2.f}, {3.f, 4.f}}), Tensor({"a", "b"})));
}

Attrs attrs_of(const Tensor& iterator) {
  const internal::ElementLayout& layout = internal::source_of(iterator).layout();
  return {{"structure", layout.structure}, {"components", layout.components}};
}

Attrs handle_attrs(const Tensor& dataset) {
  return {{"dataset", dataset},
          {"container", std::string("localhost")},
          {"shared_name", std::string("it")}};
}

// Starts one walk over three numbers.
class OneWalk : public internal::ElementSourceMaker {
 public:
  std::shared_ptr<internal::ElementSource> make_source() override {
    return std::dynamic_pointer_cast<internal::ElementSource>(
        internal::resource_of(handle_of(data::range(3))));
  }
};

}  // namespace

std::vector<OpExample> iterator_examples() {
  const Attrs attrs = attrs_of(pairs());
  const Attrs handle = handle_attrs(Tensor(data::range(3).serialize()));
  return {
      adding("IteratorHandle", {}, handle,
             {bad("IteratorHandle", {}, handle, "[IteratorHandle]", Code::FailedPrecondition),
              bad("IteratorHandle", {}, handle_attrs(Tensor(1.f)), "one string, got float32 ()")}),
      calling(
          "IteratorNext", [=](In) { return apply_op("IteratorNext", {pairs()}, attrs); },
          {bad("IteratorNext", {Tensor(1.f)}, attrs, "must be one of resource"),
           bad("IteratorNext", {internal::make_resource(std::make_shared<internal::Resource>())},
               attrs, "not an iterator's"),
           bad("IteratorNext", {handle_of(data::range(3))}, attrs,
               "gives Tensor of (int64 ()), but the op was made for (Tensor, Tensor) of "
               "(float32 (2,), string ())"),
           bad("IteratorNext", {handle_of(data::range(0))}, attrs_of(handle_of(data::range(3))),
               "has no more elements", Code::OutOfRange)}),
      calling("IteratorNextOptional",
              [=](In) { return apply_op("IteratorNextOptional", {pairs()}, attrs); },
              {bad("IteratorNextOptional", {Tensor(1.f)}, attrs, "must be one of resource"),
               bad("IteratorNextOptional", {handle_of(data::range(3))}, attrs,
                   "gives Tensor of (int64 ()), but the op was made for (Tensor, Tensor) of "
                   "(float32 (2,), string ())")}),
      calling("StartIterator",
              [=](In) {
                return apply_op("StartIterator",
                                {internal::make_resource(std::make_shared<OneWalk>())}, {});
              },
              {bad("StartIterator", {Tensor(1.f)}, {}, "must be one of resource"),
               bad("StartIterator", {pairs()}, {}, "not a dataset's")}),
  };
}

}  // namespace cohort::testing
