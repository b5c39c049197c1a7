#include <algorithm>
#include <ostream>

#include "data/stage.h"

namespace cohort::data {
namespace internal {
namespace {

class OptionsNode : public NodeOf<OptionsNode, PassThroughNode> {
 public:
  std::string_view kind() const override { return "Options"; }
  bool is_sharded_before() const override { return true; }
  CursorPtr open(const Context& context) const override { return input().open(context); }
  int64_t read_ahead() const override { return input().read_ahead(); }
  void check() const override {
    if (set.threads) check_at_least("Options", "number of threads", *set.threads, 1);
    check_policy(static_cast<int64_t>(set.auto_shard_policy.value_or(AutoShardPolicy::Auto)));
  }
  void fields(Fields& fields) override {
    constexpr int64_t kUnset = -100;  // not a value of either option
    int64_t policy = set.auto_shard_policy ? static_cast<int64_t>(*set.auto_shard_policy) : kUnset;
    int64_t threads = set.threads ? *set.threads : kUnset;
    fields.field("auto_shard_policy", policy);
    fields.field("deterministic", set.deterministic);
    fields.field("threads", threads);
    set.auto_shard_policy.reset();
    set.threads.reset();
    if (policy != kUnset) {
      check_policy(policy);
      set.auto_shard_policy = static_cast<AutoShardPolicy>(policy);
    }
    if (threads != kUnset) set.threads = static_cast<int>(std::min<int64_t>(threads, 1 << 20));
  }
  DatasetOptions options() const override {
    DatasetOptions all = Node::options();
    add_options(set, all);
    return all;
  }

  DatasetOptions set;  // the options that this stage sets

 private:
  static void check_policy(int64_t policy) {
    if (policy >= -1 && policy <= 3) return;
    raise(Code::InvalidArgument, "[Options] {} is not an AutoShardPolicy", policy);
  }
};

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

void raise_negative_cardinality(int64_t count) {
  raise(Code::InvalidArgument,
        "[Cardinality] a number of elements must be 0 or more, got {}; use kInfinite or "
        "kUnknownCardinality",
        count);
}

void raise_no_count(std::string_view cardinality) {
  raise(Code::FailedPrecondition,
        "[Cardinality] the cardinality is {}, which is not a number; ask is_number() first",
        cardinality);
}

std::shared_ptr<Node> make_options() { return std::make_shared<OptionsNode>(); }

}  // namespace internal

Cardinality Dataset::cardinality() const { return node_->cardinality(); }
std::optional<ElementSpec> Dataset::element_spec() const { return node_->spec(); }
DatasetOptions Dataset::options() const { return node_->options(); }
std::string Dataset::to_string() const { return internal::stages_of(*node_); }

std::string Cardinality::to_string() const {
  if (is_number()) return std::to_string(count_);
  return kind_ == Kind::Infinite ? "infinite" : "unknown";
}

std::ostream& operator<<(std::ostream& out, Cardinality cardinality) {
  return out << cardinality.to_string();
}

std::ostream& operator<<(std::ostream& out, const Dataset& dataset) {
  return out << dataset.to_string();
}

Dataset Dataset::options(const DatasetOptions& options) const {
  return internal::add_stage<internal::OptionsNode>({node_},
                                                    [&](auto& node) { node.set = options; });
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
