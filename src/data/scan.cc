// Stages that carry state from element to element: scan and enumerate.

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ScanCursor;
class ScanNode : public Stage<ScanNode, ScanCursor> {
 public:
  std::string_view kind() const override { return "Scan"; }
  int64_t cardinality() const override { return input().cardinality(); }
  void fields(Fields& fields) override {
    fields.field("initial", initial);
    fields.field("function", function);
  }

  Element initial;
  Function function = DatasetAccess::empty_function();
};

class ScanCursor : public StageCursor<ScanNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    Element element;
    if (!input_->next(element)) return false;
    const Element both = in_stage("Scan", index_++, [&] {
      Element result = node_.function(Element::tuple(std::vector<Element>{state_, element}));
      if (!result.is_tuple() || result.size() != 2) {
        raise(Code::InvalidArgument, "the function must return (new state, output), got {}",
              to_string(*structure_of(result)));
      }
      return result;
    });
    state_ = both[0];
    out = both[1];
    return true;
  }

 private:
  void local_position(PositionFields& fields) override {
    fields.integer(index_);
    fields.element(state_);
  }

  Element state_ = node_.initial;
  int64_t index_ = 0;
};

class EnumerateCursor;
class EnumerateNode : public Stage<EnumerateNode, EnumerateCursor> {
 public:
  std::string_view kind() const override { return "Enumerate"; }
  int64_t cardinality() const override { return input().cardinality(); }
  std::optional<ElementSpec> spec() const override {
    const std::optional<ElementSpec> part = input().spec();
    if (!part) return std::nullopt;
    std::vector<TensorSpec> tensors = part->tensors();
    tensors.insert(tensors.begin(), TensorSpec{kInt64, {}});
    return ElementSpec(tuple_structure({leaf_structure(), part->structure()}), std::move(tensors));
  }
  void fields(Fields& fields) override { fields.field("start", start); }

  int64_t start = 0;
};

class EnumerateCursor : public StageCursor<EnumerateNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    Element element;
    const int64_t number = number_++;
    const Status failure = capture_status([&] {
      if (!input_->next(element)) --number_;
    });
    throw_if_error(failure);
    if (number_ == number) return false;
    out = Element::tuple(std::vector<Element>{Element(number), std::move(element)});
    return true;
  }

 private:
  void local_position(PositionFields& fields) override { fields.integer(number_); }

  int64_t number_ = node_.start;
};

}  // namespace

std::shared_ptr<Node> make_scan() { return std::make_shared<ScanNode>(); }
std::shared_ptr<Node> make_enumerate() { return std::make_shared<EnumerateNode>(); }

}  // namespace internal

Dataset Dataset::scan(Element initial_state, Function function) const {
  auto node = internal::stage_on<internal::ScanNode>(node_);
  node->initial = std::move(initial_state);
  node->function = std::move(function);
  return internal::finish(node);
}

Dataset Dataset::enumerate(int64_t start) const {
  auto node = internal::stage_on<internal::EnumerateNode>(node_);
  node->start = start;
  return internal::finish(node);
}

}  // namespace cohort::data
