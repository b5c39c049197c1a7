#include <algorithm>
#include <ostream>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

std::string stages_of(const Node& node) {
  std::string text;
  if (node.inputs.size() == 1) {
    text = stages_of(node.input()) + " -> ";
  } else if (!node.inputs.empty()) {
    for (const NodePtr& input : node.inputs)
      text += (text.empty() ? "[" : ", ") + stages_of(*input);
    text += "] -> ";
  }
  return text + std::string(node.kind()) + node.details();
}

}  // namespace
}  // namespace internal

Dataset DatasetFunction::operator()(const Element& element) const { return call_(element); }

int64_t Dataset::cardinality() const { return node_->cardinality(); }
std::optional<ElementSpec> Dataset::element_spec() const { return node_->spec(); }
DatasetOptions Dataset::options() const { return node_->options(); }
std::string Dataset::to_string() const { return internal::stages_of(*node_); }

std::ostream& operator<<(std::ostream& out, const Dataset& dataset) {
  return out << dataset.to_string();
}

Element Dataset::reduce(Element initial, Function function) const {
  int64_t index = 0;
  for (const Element& element : *this) {
    initial = internal::in_stage("Reduce", index++, [&] {
      return function(Element::tuple(std::vector<Element>{initial, element}));
    });
  }
  return initial;
}

}  // namespace cohort::data
