// Stages that carry something from element to element: scan, enumerate. And options, which carry
// nothing.

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class ScanNode : public NodeOf<ScanNode> {
 public:
  std::string_view kind() const override { return "Scan"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return input().cardinality(); }
  void fields(Fields& fields) override {
    fields.field("initial", initial);
    fields.field("function", function);
  }

  Element initial;
  Function function = DatasetAccess::empty_function();
};

class ScanCursor : public StageCursor {
 public:
  ScanCursor(const ScanNode& node, const Context& context)
      : StageCursor(node, context), scan_(node), state_(node.initial) {}

  bool next(Element& out) override {
    Element element;
    if (!input_->next(element)) return false;
    const Element both = in_stage("Scan", index_++, [&] {
      Element result = scan_.function(Element::tuple(std::vector<Element>{state_, element}));
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
  void save(StateWriter& state) override {
    state.stage("Scan");
    state.integer(index_);
    state.element(state_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Scan");
    index_ = state.integer();
    state_ = state.element();
    input_->restore(state);
  }

 private:
  const ScanNode& scan_;
  Element state_;
  int64_t index_ = 0;
};

CursorPtr ScanNode::open(const Context& context) const {
  return std::make_unique<ScanCursor>(*this, context);
}

class EnumerateNode : public NodeOf<EnumerateNode> {
 public:
  std::string_view kind() const override { return "Enumerate"; }
  CursorPtr open(const Context& context) const override;
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

class EnumerateCursor : public StageCursor {
 public:
  EnumerateCursor(const EnumerateNode& node, const Context& context)
      : StageCursor(node, context), number_(node.start) {}

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
  void save(StateWriter& state) override {
    state.stage("Enumerate");
    state.integer(number_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage("Enumerate");
    number_ = state.integer();
    input_->restore(state);
  }

 private:
  int64_t number_;
};

CursorPtr EnumerateNode::open(const Context& context) const {
  return std::make_unique<EnumerateCursor>(*this, context);
}

class OptionsNode : public PassThroughNode<OptionsNode> {
 public:
  std::string_view kind() const override { return "Options"; }
  CursorPtr open(const Context& context) const override { return input().open(context); }
  int64_t cardinality() const override { return input().cardinality(); }
  int64_t read_ahead() const override { return input().read_ahead(); }
  void check() const override {
    if (own.threads) check_at_least("Options", "number of threads", *own.threads, 1);
    const auto policy = static_cast<int>(own.auto_shard_policy.value_or(AutoShardPolicy::Auto));
    if (policy < -1 || policy > 3) {
      raise(Code::InvalidArgument, "[Options] {} is not an AutoShardPolicy", policy);
    }
  }
  void fields(Fields& fields) override {
    // A value that no option has stands for one that is not set.
    constexpr int64_t kUnset = -100;
    int64_t policy = own.auto_shard_policy ? static_cast<int64_t>(*own.auto_shard_policy) : kUnset;
    int64_t threads = own.threads ? *own.threads : kUnset;
    fields.field("auto_shard_policy", policy);
    fields.field("deterministic", own.deterministic);
    fields.field("threads", threads);
    own.auto_shard_policy.reset();
    own.threads.reset();
    if (policy != kUnset) {
      if (policy < -1 || policy > 3) {
        raise(Code::InvalidArgument, "[Options] {} is not an AutoShardPolicy", policy);
      }
      own.auto_shard_policy = static_cast<AutoShardPolicy>(policy);
    }
    if (threads != kUnset) own.threads = static_cast<int>(std::min<int64_t>(threads, 1 << 20));
  }
  DatasetOptions options() const override {
    DatasetOptions all = Node::options();
    if (own.auto_shard_policy) all.auto_shard_policy = own.auto_shard_policy;
    if (own.deterministic) all.deterministic = own.deterministic;
    if (own.threads) all.threads = own.threads;
    return all;
  }

  DatasetOptions own;
};

}  // namespace

std::shared_ptr<Node> make_scan() { return std::make_shared<ScanNode>(); }
std::shared_ptr<Node> make_enumerate() { return std::make_shared<EnumerateNode>(); }
std::shared_ptr<Node> make_options() { return std::make_shared<OptionsNode>(); }

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

Dataset Dataset::options(const DatasetOptions& options) const {
  auto node = internal::stage_on<internal::OptionsNode>(node_);
  node->own = options;
  return internal::finish(node);
}

}  // namespace cohort::data
