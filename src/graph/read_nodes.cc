#include <fmt/format.h>

#include <charconv>
#include <queue>
#include <set>
#include <unordered_map>

#include "base/mutex.h"
#include "base/raise.h"
#include "graph/wire_format.h"
#include "ops/all_ops.h"

namespace cohort::internal {
namespace {

using NodeMessages = google::protobuf::RepeatedPtrField<message::Node>;

constexpr size_t kLongestName = 4096;

// "x", "x:1" or "^x", taken apart.
struct InputText {
  std::string_view node;
  int output = 0;
  bool control = false;
};

// Digits without leading zeros.
bool read_index(std::string_view digits, int& index) {
  if (digits.empty() || (digits[0] == '0' && digits.size() > 1)) return false;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, index);
  return error == std::errc() && stop == end && index >= 0;
}

// Nodes that cutting a graph adds have names that users' do not.
bool is_name(std::string_view name, NodesOf kind) {
  const bool reserved = kind == NodesOf::Part && name.starts_with('_');
  return is_node_name(reserved ? name.substr(1) : name);
}

InputText parse_input(std::string_view text, NodesOf kind) {
  InputText input{.node = text, .control = text.starts_with('^')};
  const size_t colon = text.rfind(':');
  if (input.control) {
    input.node.remove_prefix(1);
  } else if (colon != std::string_view::npos) {
    input.node = text.substr(0, colon);
    if (!read_index(text.substr(colon + 1), input.output)) input.node = {};
  }
  if (!is_name(input.node, kind)) {
    raise(Code::InvalidArgument,
          "input {} is neither 'name', 'name:index' (no leading zeros) nor '^name'", quoted(text));
  }
  return input;
}

NodeOutput find_output(const GraphImpl& graph, std::string_view text, NodesOf kind) {
  const InputText input = parse_input(text, kind);
  const int node = input.control ? -1 : graph.find(input.node);
  if (node < 0 || input.output >= static_cast<int>(graph.node(node).outputs.size())) {
    raise(Code::InvalidArgument, "there is no tensor {}", quoted(text));
  }
  return {node, input.output};
}

// The file names of sites live as long as the process, as literals do. Their number is limited,
// with room for large programs; nodes made in further files have no site.
const char* keep_file_name(const std::string& name) {
  constexpr size_t kMaxFiles = 1 << 14;
  constexpr size_t kLongestFile = 512;
  static Mutex mutex;
  static auto* const files = new std::set<std::string>();  // never destroyed
  const std::lock_guard lock(mutex);
  if (const auto found = files->find(name); found != files->end()) return found->c_str();
  if (files->size() >= kMaxFiles || name.size() > kLongestFile) return "";
  return files->insert(name).first->c_str();
}

AttrValue read_value(const message::Attr& in, const FindFunction& find_function) {
  switch (in.value_case()) {
    case message::Attr::kFlag:
      return in.flag();
    case message::Attr::kInteger:
      return int64_t{in.integer()};
    case message::Attr::kNumber:
      return in.number();
    case message::Attr::kText:
      return in.text();
    case message::Attr::kDtype:
      return parse_dtype(in.dtype());
    case message::Attr::kShape:
      return read_shape(in.shape());
    case message::Attr::kIntegers:
      return std::vector<int64_t>(in.integers().values().begin(), in.integers().values().end());
    case message::Attr::kTexts:
      return std::vector<std::string>(in.texts().values().begin(), in.texts().values().end());
    case message::Attr::kTensor:
      return read_tensor(in.tensor());
    case message::Attr::kFunction:
      return find_function(in.function());
    case message::Attr::VALUE_NOT_SET:
      break;
  }
  raise(Code::InvalidArgument, "attribute {} has no value", quoted(in.name()));
}

// Reads the nodes of one graph, for one call of read_nodes().
class NodeReader {
 public:
  NodeReader(const NodeMessages& nodes, NodesOf kind, const FindFunction& find_function)
      : nodes_(nodes), kind_(kind), find_function_(find_function) {}

  std::shared_ptr<GraphImpl> read() {
    for (int i = 0; i < nodes_.size(); ++i) at_node(i, [&] { note_name(i); });
    before_.resize(static_cast<size_t>(nodes_.size()));
    for (int i = 0; i < nodes_.size(); ++i) at_node(i, [&] { note_inputs(i); });
    for (const int i : order()) at_node(i, [&] { add(nodes_[i]); });
    return graph_;
  }

 private:
  // Every error here is an error of the bytes that were read.
  template <typename Body>
  void at_node(int i, Body&& body) {
    const Status status = capture_status(std::forward<Body>(body));
    if (status.ok()) return;
    raise(Code::InvalidArgument, "[Graph] node {} ({}): {}", quoted(nodes_[i].name()),
          quoted(nodes_[i].op()), status.message);
  }

  void note_name(int i) {
    const std::string& name = nodes_[i].name();
    if (name.size() > kLongestName || !is_name(name, kind_)) {
      raise(Code::InvalidArgument,
            "the name is not a node's; a node's name has letters, digits and _ . \\ / - after a "
            "first letter, digit or dot");
    }
    if (!places_.emplace(name, i).second) {
      raise(Code::InvalidArgument, "two nodes have this name");
    }
  }

  void note_inputs(int i) {
    bool controls = false;
    for (const std::string& text : nodes_[i].inputs()) {
      const InputText input = parse_input(text, kind_);
      if (controls && !input.control) {
        raise(Code::InvalidArgument, "input {} must come before the control inputs", quoted(text));
      }
      controls = input.control;
      const auto found = places_.find(input.node);
      if (found == places_.end()) {
        raise(Code::InvalidArgument, "input {} does not exist", quoted(text));
      }
      before_[static_cast<size_t>(i)].push_back(found->second);
    }
    for (const std::string& name : nodes_[i].colocated_with()) {
      if (!places_.contains(name)) {
        raise(Code::InvalidArgument, "the node must be placed with {}, which does not exist",
              quoted(name));
      }
    }
  }

  // Every node after its inputs; in the given order where that holds already.
  std::vector<int> order() {
    std::vector<std::vector<int>> after(before_.size());
    std::vector<size_t> missing(before_.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t i = 0; i < before_.size(); ++i) {
      missing[i] = before_[i].size();
      for (const int input : before_[i]) {
        after[static_cast<size_t>(input)].push_back(static_cast<int>(i));
      }
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> sorted;
    while (!ready.empty()) {
      const int next = ready.top();
      ready.pop();
      sorted.push_back(next);
      for (const int user : after[static_cast<size_t>(next)]) {
        if (--missing[static_cast<size_t>(user)] == 0) ready.push(user);
      }
    }
    if (sorted.size() != before_.size()) raise_cycle(missing);
    return sorted;
  }

  // Going from a node that waits to one that it waits for, long enough, ends on the cycle.
  [[noreturn]] void raise_cycle(const std::vector<size_t>& missing) {
    size_t at = 0;
    while (missing[at] == 0) ++at;
    for (size_t step = 0; step < missing.size(); ++step) {
      for (const int input : before_[at]) {
        if (missing[static_cast<size_t>(input)] == 0) continue;
        at = static_cast<size_t>(input);
        break;
      }
    }
    raise(Code::InvalidArgument, "[Graph] node {} depends on itself: the graph has a cycle",
          quoted(nodes_[static_cast<int>(at)].name()));
  }

  void add(const message::Node& in) {
    const OpDef* op = find_op_or_null(in.op());
    if (op == nullptr) raise(Code::InvalidArgument, "the op is unknown to this program");
    if (op == &kArgument && kind_ != NodesOf::Function) {
      raise(Code::InvalidArgument, "only functions have arguments");
    }
    Node node{.name = in.name(), .op = op};
    read_inputs(in, node);
    read_attrs(in, node);
    check_call(*op, node.inputs.size(), node.attrs);
    read_placement(in, node);
    for (const message::Spec& output : in.outputs()) node.outputs.push_back(read_spec(output));
    check_outputs(node);
    node.site = {keep_file_name(in.site().file()), in.site().line()};
    graph_->add(std::move(node));
  }

  void read_inputs(const message::Node& in, Node& node) {
    for (const std::string& text : in.inputs()) {
      if (text.starts_with('^')) {
        node.controls.push_back(graph_->find(std::string_view(text).substr(1)));
      } else {
        node.inputs.push_back(find_output(*graph_, text, kind_));
      }
    }
  }

  // The names of attributes are the literals of the op's definition, which outlive the graph.
  void read_attrs(const message::Node& in, Node& node) {
    for (const message::Attr& attr : in.attrs()) {
      const AttrDef* const known = node.op->attrs.find(attr.name());
      if (known == nullptr || node.attrs.has(attr.name())) {
        raise(Code::InvalidArgument, "the op has no attribute {}, or the attribute comes twice",
              quoted(attr.name()));
      }
      node.attrs.set(known->name, read_value(attr, find_function_));
    }
  }

  static void read_placement(const message::Node& in, Node& node) {
    const std::optional<DeviceName> device = DeviceName::try_parse(in.device());
    if (!device) raise(Code::InvalidArgument, "{} is not a device's name", quoted(in.device()));
    node.device = *device;
    for (const std::string& name : in.colocated_with()) node.colocated_with.push_back(name);
  }

  // The outputs that the node declares may say more or less than its op infers now, but must agree
  // with it.
  void check_outputs(const Node& node) {
    const std::vector<Tensor> inputs = graph_->symbols(node.inputs);
    for (const Tensor& input : inputs) {
      if (!node.op->dtypes.has(input.dtype())) {
        raise(Code::InvalidArgument, "an input is {}, but must be one of {}",
              to_string(input.dtype()), node.op->dtypes.to_string());
      }
      if (node.op->traits.has(Trait::OneDType) && input.dtype() != inputs[0].dtype()) {
        raise(Code::InvalidArgument, "inputs are {} and {}, but must have one dtype",
              to_string(inputs[0].dtype()), to_string(input.dtype()));
      }
    }
    const Specs inferred = node.op->infer({node.op->name, inputs, node.attrs});
    if (inferred.size() != node.outputs.size()) {
      raise(Code::InvalidArgument, "the node has {} outputs, but {} are stated", inferred.size(),
            node.outputs.size());
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      const Spec& stated = node.outputs[i];
      if (stated.is_compatible_with(inferred[i])) continue;
      raise(Code::InvalidArgument, "output {} is {}, but {} is stated", i, inferred[i].to_string(),
            stated.to_string());
    }
  }

  const NodeMessages& nodes_;
  const NodesOf kind_;
  const FindFunction& find_function_;
  std::unordered_map<std::string_view, int> places_;
  std::vector<std::vector<int>> before_;
  std::shared_ptr<GraphImpl> graph_ = std::make_shared<GraphImpl>();
};

}  // namespace

std::string quoted(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown = "'";
  for (const char c : text.substr(0, kMaxShown)) {
    const bool printable = c >= ' ' && c <= '~';
    shown += printable ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return shown + (text.size() > kMaxShown ? "...'" : "'");
}

NodeOutput read_node_output(const GraphImpl& graph, std::string_view text) {
  return find_output(graph, text, NodesOf::Graph);
}

std::shared_ptr<GraphImpl> read_nodes(const NodeMessages& nodes, NodesOf kind,
                                      const FindFunction& find_function) {
  return NodeReader(nodes, kind, find_function).read();
}

}  // namespace cohort::internal
