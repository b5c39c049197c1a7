// Descriptions as bytes, and back. Descriptions refer to functions by their registered names.

#include <unordered_map>

#include "base/mutex.h"
#include "cohort/data.pb.h"
#include "data/batch_rows.h"
#include "data/node.h"
#include "tensor/tensor_proto.h"

namespace cohort::data {
namespace internal {

#define COHORT_NODE(name, make) std::shared_ptr<Node> make();
#include "data/node_kinds.inc"
#undef COHORT_NODE

namespace {

constexpr uint32_t kVersion = 1;
constexpr int kMaxNodes = 4096;  // opening a dataset recurses over them

using Make = std::shared_ptr<Node> (*)();
constexpr std::pair<std::string_view, Make> kKinds[] = {
#define COHORT_NODE(name, make) {name, &make},
#include "data/node_kinds.inc"
#undef COHORT_NODE
};

bool can_have_inputs(const Node& node, size_t count) {
  if (node.role() == NodeRole::Source) return count == 0;
  return node.combines() ? count > 0 : count == 1;
}

template <typename F>
class Registry {
 public:
  F add(const std::string& name, F function) {
    if (name.empty())
      raise(Code::InvalidArgument, "[Register] the name of a function must not be empty");
    const std::lock_guard lock(mutex_);
    function = DatasetAccess::named(std::move(function), name);
    if (!functions_.emplace(name, function).second) {
      raise(Code::AlreadyExists, "[Register] a function '{}' is already registered", name);
    }
    return function;
  }
  F find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
      raise(Code::NotFound,
            "[Dataset] function '{}' is not registered in this process; register it, as the "
            "process that made the dataset did",
            name);
    }
    return found->second;
  }

 private:
  cohort::internal::Mutex mutex_;
  std::map<std::string, F> functions_;
};

template <typename F>
Registry<F>& registry() {
  static Registry<F> all;
  return all;
}

Tensor from_proto(const ::cohort::proto::TensorValue& value) {
  Tensor tensor;
  const Status status = capture_status([&] { tensor = cohort::internal::read_tensor(value); });
  if (!status.ok()) raise(Code::InvalidArgument, "[Dataset] {}", status.message);
  return tensor;
}

class FieldWriter : public Fields {
 public:
  explicit FieldWriter(proto::Node& node) : node_(node) {}

  using Fields::field;
  void field(std::string_view name, int64_t& value) override { add(name).set_integer(value); }
  void field(std::string_view name, double& value) override { add(name).set_number(value); }
  void field(std::string_view name, std::string& value) override { add(name).set_text(value); }
  void field(std::string_view name, Element& value) override {
    proto::ElementValue& element = *add(name).mutable_element();
    element.set_structure(to_string(*structure_of(value)));
    for (const Tensor& tensor : tensors_of(value)) {
      cohort::internal::write_tensor(tensor, *element.add_tensors());
    }
  }
  void field(std::string_view name, Function& value) override { function(name, value.name()); }
  void field(std::string_view name, DatasetFunction& value) override {
    function(name, value.name());
  }
  void field(std::string_view name, GeneratorFunction& value) override {
    function(name, value.name());
  }

 private:
  proto::Field& add(std::string_view name) {
    proto::Field& field = *node_.add_fields();
    field.set_name(std::string(name));
    return field;
  }
  void function(std::string_view name, const std::string& registered) {
    if (registered.empty()) {
      raise(Code::FailedPrecondition,
            "[{}] the function is C++ code and cannot be serialized; give it a name with "
            "data::register_function() in every process",
            node_.kind());
    }
    add(name).set_function(registered);
  }

  proto::Node& node_;
};

class FieldReader : public Fields {
 public:
  explicit FieldReader(const proto::Node& node) : node_(node) {}

  using Fields::field;
  void field(std::string_view name, int64_t& value) override {
    value = find(name, proto::Field::kInteger).integer();
  }
  void field(std::string_view name, double& value) override {
    value = find(name, proto::Field::kNumber).number();
  }
  void field(std::string_view name, std::string& value) override {
    value = find(name, proto::Field::kText).text();
  }
  void field(std::string_view name, Element& value) override {
    const proto::ElementValue& element = find(name, proto::Field::kElement).element();
    StructurePtr structure = parse_structure(element.structure());
    std::vector<Tensor> tensors;
    for (const auto& tensor : element.tensors()) tensors.push_back(from_proto(tensor));
    if (structure->leaves != tensors.size()) {
      raise(Code::InvalidArgument, "[{}] '{}' needs {} tensors, got {}", node_.kind(), name,
            structure->leaves, tensors.size());
    }
    value = ElementAccess::make(std::move(structure), std::move(tensors));
  }
  void field(std::string_view name, Function& value) override {
    value = registry<Function>().find(find(name, proto::Field::kFunction).function());
  }
  void field(std::string_view name, DatasetFunction& value) override {
    value = registry<DatasetFunction>().find(find(name, proto::Field::kFunction).function());
  }
  void field(std::string_view name, GeneratorFunction& value) override {
    value = registry<GeneratorFunction>().find(find(name, proto::Field::kFunction).function());
  }

 private:
  const proto::Field& find(std::string_view name, proto::Field::ValueCase kind) const {
    for (const proto::Field& field : node_.fields()) {
      if (field.name() == name && field.value_case() == kind) return field;
    }
    raise(Code::InvalidArgument, "[{}] the description lacks '{}', or it has the wrong type",
          node_.kind(), name);
  }

  const proto::Node& node_;
};

// Appends `node` after its inputs, unless it is already there, and returns its place.
uint32_t add_node(const NodePtr& node, std::unordered_map<const Node*, uint32_t>& places,
                  proto::Dataset& out) {
  if (const auto known = places.find(node.get()); known != places.end()) return known->second;
  proto::Node described;
  described.set_kind(std::string(node->kind()));
  for (const NodePtr& input : node->inputs) described.add_inputs(add_node(input, places, out));
  FieldWriter writer(described);
  node->clone()->fields(writer);
  const auto place = static_cast<uint32_t>(out.nodes_size());
  *out.add_nodes() = std::move(described);
  places.emplace(node.get(), place);
  return place;
}

std::shared_ptr<Node> make_node(const std::string& kind) {
  for (const auto& [name, make] : kKinds) {
    if (name == kind) return make();
  }
  raise(Code::InvalidArgument, "[Dataset] stage '{}' is unknown to this version of Cohort",
        kind.substr(0, 100));
}

NodePtr read_node(const proto::Node& described, const std::vector<NodePtr>& before) {
  std::shared_ptr<Node> node = make_node(described.kind());
  const size_t inputs = static_cast<size_t>(described.inputs_size());
  if (!can_have_inputs(*node, inputs)) {
    raise(Code::InvalidArgument, "[{}] the stage cannot have {} inputs", described.kind(), inputs);
  }
  for (const uint32_t place : described.inputs()) {
    if (place >= before.size()) {
      raise(Code::InvalidArgument, "[{}] the description lists the stage before its input",
            described.kind());
    }
    node->inputs.push_back(before[place]);
  }
  FieldReader reader(described);
  node->fields(reader);
  node->check();
  return node;
}

}  // namespace
}  // namespace internal

Function register_function(const std::string& name, Function function) {
  return internal::registry<Function>().add(name, std::move(function));
}

DatasetFunction register_dataset_function(const std::string& name, DatasetFunction function) {
  return internal::registry<DatasetFunction>().add(name, std::move(function));
}

GeneratorFunction register_generator(const std::string& name, GeneratorFunction function) {
  return internal::registry<GeneratorFunction>().add(name, std::move(function));
}

std::string Dataset::serialize() const {
  proto::Dataset description;
  description.set_version(internal::kVersion);
  std::unordered_map<const internal::Node*, uint32_t> places;
  internal::add_node(node_, places, description);
  description.set_count(static_cast<uint32_t>(description.nodes_size()));
  return description.SerializeAsString();
}

Dataset Dataset::deserialize(const std::string& bytes) {
  proto::Dataset description;
  if (!description.ParseFromString(bytes)) {
    internal::raise(Code::InvalidArgument, "[Dataset] these {} bytes do not describe a dataset",
                    bytes.size());
  }
  if (description.version() != internal::kVersion || description.nodes().empty() ||
      description.nodes_size() > internal::kMaxNodes) {
    internal::raise(Code::InvalidArgument,
                    "[Dataset] a description of version {} with {} stages cannot be read",
                    description.version(), description.nodes_size());
  }
  if (static_cast<uint32_t>(description.nodes_size()) != description.count()) {
    internal::raise(Code::InvalidArgument,
                    "[Dataset] the description has {} stages, but {} were written: it is cut off",
                    description.nodes_size(), description.count());
  }
  std::vector<internal::NodePtr> nodes;
  for (const proto::Node& node : description.nodes()) {
    nodes.push_back(internal::read_node(node, nodes));
  }
  return Dataset(nodes.back());
}

}  // namespace cohort::data
