#include "graph/op_signatures.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr int kMany = std::numeric_limits<int>::max();
constexpr size_t kLongestList = 1 << 20;
constexpr bool kOneDType = true;

struct Line {
  std::string_view op;
  int least;
  int most;
  std::string_view attrs;  // "axis:int keep:bool"
  bool one_dtype = false;
};

constexpr std::string_view kReduction = "axes:axes all:bool keep:bool";
constexpr std::string_view kWindow = "window:pair stride:pair padding:pair same:bool";
constexpr std::string_view kConvolution =
    "stride:pair dilation:pair padding:pair same:bool groups:int";
constexpr std::string_view kDeclared = "dtype:dtype shape:shape";
constexpr std::string_view kSlicing = "begin:axes end:axes step:axes";

constexpr std::string_view kQueue = "queue:text components:ints";
constexpr std::string_view kLoop =
    "condition:function body:function num_state:int maximum_iterations:int";

// One line per op that may be part of a graph from outside, in order of name.
constexpr Line kLines[] = {
    {"Abs", 1, 1, ""},
    {"AccumulatorApply", 3, 3, "accumulator:text dtype:dtype shape:shape"},
    {"AccumulatorCancelTakes", 1, 1, ""},
    {"AccumulatorCount", 1, 1, ""},
    {"AccumulatorHandle", 0, 0,
     "dtype:dtype shape:shape mean:bool sparse:bool container:text shared_name:text"},
    {"AccumulatorLimit", 2, 2, ""},
    {"AccumulatorSetStep", 2, 2, ""},
    {"AccumulatorTake", 2, 2, kDeclared},
    {"Add", 2, 2, "", kOneDType},
    {"AddAlong", 3, 3, "axis:int"},
    {"All", 1, 1, kReduction},
    {"Any", 1, 1, kReduction},
    {"ApplyAdagrad", 5, 6,
     "epsilon:float weight_decay:float tensorflow:bool sparse:bool all_rows:bool dtype:dtype "
     "shape:shape"},
    {"ApplyAdam", 6, 7,
     "beta1:float beta2:float epsilon:float weight_decay:float decoupled:bool "
     "tensorflow:bool sparse:bool all_rows:bool "
     "dtype:dtype shape:shape"},
    {"ApplyFtrl", 6, 7,
     "learning_rate_power:float l1:float l2:float sparse:bool all_rows:bool dtype:dtype "
     "shape:shape"},
    {"ApplyMomentum", 5, 6,
     "weight_decay:float momentum:float nesterov:bool tensorflow:bool sparse:bool all_rows:bool "
     "dtype:dtype "
     "shape:shape"},
    {"ApplyRmsProp", 7, 8,
     "rho:float epsilon:float momentum:float weight_decay:float centered:bool "
     "tensorflow:bool sparse:bool all_rows:bool "
     "dtype:dtype shape:shape"},
    {"ApplySgd", 4, 5, "weight_decay:float sparse:bool all_rows:bool dtype:dtype shape:shape"},
    {"ArgMax", 1, 1, "axis:int"},
    {"ArgMin", 1, 1, "axis:int"},
    {"Argument", 0, 0, kDeclared},
    {"AssignAddVariable", 2, 2, kDeclared},
    {"AssignSubVariable", 2, 2, kDeclared},
    {"AssignVariable", 2, 2, kDeclared},
    {"AvgPool2d", 1, 1, kWindow},
    {"AvgPool2dGrad", 2, 2, kWindow},
    {"BatchNorm", 3, 3, "epsilon:float"},
    {"BatchNormGrad", 5, 5, "epsilon:float"},
    {"BatchNormInference", 5, 5, "epsilon:float"},
    {"BiasAdd", 2, 2, "axis:int"},
    {"BitwiseAnd", 2, 2, "", kOneDType},
    {"BitwiseNot", 1, 1, ""},
    {"BitwiseOr", 2, 2, "", kOneDType},
    {"BitwiseXor", 2, 2, "", kOneDType},
    {"BroadcastLike", 2, 2, ""},
    {"BroadcastTo", 1, 1, "shape:shape"},
    {"Cast", 1, 1, "dtype:dtype"},
    {"Ceil", 1, 1, ""},
    {"CheckNumerics", 1, 1, "label:text"},
    {"Concat", 1, kMany, "axis:int", kOneDType},
    {"ConcatGrad", 2, kMany, "axis:int", kOneDType},
    {"Cond", 1, kMany, "then_branch:function else_branch:function"},
    {"Const", 0, 0, "value:tensor"},
    {"Conv2d", 2, 3, kConvolution},
    {"Conv2dInputGrad", 3, 3, kConvolution},
    {"Conv2dKernelGrad", 3, 3, kConvolution},
    {"Cos", 1, 1, ""},
    {"CumSum", 1, 1, "axis:int reverse:bool"},
    {"Dense", 3, 3, ""},
    {"Div", 2, 2, "", kOneDType},
    {"DropoutMask", 2, 2, "rate:float"},
    {"Elu", 1, 1, "alpha:float"},
    {"EluGrad", 2, 2, "alpha:float", kOneDType},
    {"Equal", 2, 2, "", kOneDType},
    {"Erf", 1, 1, ""},
    {"Exp", 1, 1, ""},
    {"ExpandDims", 1, 1, "axis:int"},
    {"Eye", 0, 0, "rows:int columns:int dtype:dtype"},
    {"Fill", 1, 1, "shape:shape"},
    {"FillLike", 1, 1, "value:float"},
    {"Floor", 1, 1, ""},
    {"FloorDiv", 2, 2, "", kOneDType},
    {"ForgetState", 1, 1, "container:text"},
    {"Gather", 2, 2, "axis:int"},
    {"GatherGrad", 3, 3, "axis:int"},
    {"Gelu", 1, 1, ""},
    {"GeluGrad", 2, 2, "", kOneDType},
    {"Group", 0, kMany, ""},
    {"HoldPresence", 5, 5, ""},
    {"HoldTensors", 0, kMany, "slot:text"},
    {"Identity", 1, 1, ""},
    {"Index", 1, 1, "index:int"},
    {"IndexGrad", 2, 2, "index:int", kOneDType},
    {"IsFinite", 1, 1, ""},
    {"IsNan", 1, 1, ""},
    {"IteratorHandle", 0, 0, "dataset:tensor container:text shared_name:text"},
    {"IteratorNext", 1, 1, "structure:text components:ints"},
    {"IteratorNextOptional", 1, 1, "structure:text components:ints"},
    {"KeepResults", 1, kMany, "container:text"},
    {"KeptResult", 1, 1, "container:text output:int dtype:dtype shape:shape"},
    {"L2Loss", 1, 1, ""},
    {"LayerNorm", 3, 3, "epsilon:float"},
    {"LayerNormGrad", 5, 5, ""},
    {"LeakyRelu", 1, 1, "slope:float"},
    {"LeakyReluGrad", 2, 2, "slope:float", kOneDType},
    {"Less", 2, 2, "", kOneDType},
    {"LessEqual", 2, 2, "", kOneDType},
    {"Linspace", 0, 0, "first:float last:float count:int dtype:dtype"},
    {"LoadShard", 2, 2, "components:ints"},
    {"Log", 1, 1, ""},
    {"Log1p", 1, 1, ""},
    {"LogSoftmax", 1, 1, "axis:int"},
    {"LogSoftmaxGrad", 2, 2, "axis:int", kOneDType},
    {"LogSumExp", 1, 1, kReduction},
    {"LogicalAnd", 2, 2, "", kOneDType},
    {"LogicalNot", 1, 1, ""},
    {"LogicalOr", 2, 2, "", kOneDType},
    {"LogicalXor", 2, 2, "", kOneDType},
    {"MatMul", 2, 2, "transpose_a:bool transpose_b:bool", kOneDType},
    {"Max", 1, 1, kReduction},
    {"MaxPool2d", 1, 1, kWindow},
    {"MaxPool2dGrad", 3, 3, kWindow},
    {"MaxPool2dPick", 2, 2, kWindow},
    {"Maximum", 2, 2, "", kOneDType},
    {"Mean", 1, 1, kReduction},
    {"MergeRows", 2, 2, ""},
    {"Min", 1, 1, kReduction},
    {"Minimum", 2, 2, "", kOneDType},
    {"Mod", 2, 2, "", kOneDType},
    {"Mul", 2, 2, "", kOneDType},
    {"NativeFunction", 0, kMany, "name:text outputs:ints"},
    {"NativeFunctionGrad", 0, kMany, "name:text num_inputs:int num_outputs:int"},
    {"Neg", 1, 1, ""},
    {"NotEqual", 2, 2, "", kOneDType},
    {"Once", 2, kMany, "update:function number:int container:text"},
    {"OneHot", 1, 1, "depth:int dtype:dtype"},
    {"Ones", 0, 0, kDeclared},
    {"OnesLike", 1, 1, ""},
    {"Pad", 1, 1, "before:axes after:axes value:float"},
    {"Placeholder", 0, 0, kDeclared},
    {"PlaceholderWithDefault", 1, 1, "shape:shape"},
    {"Pow", 2, 2, "", kOneDType},
    {"Print", 1, 1, "label:text"},
    {"Prod", 1, 1, kReduction},
    {"ProdOthers", 1, 1, kReduction},
    {"ProdOthersGrad", 2, 2, kReduction},
    {"QueueClose", 1, 1, "cancel_pending_enqueues:bool"},
    {"QueueDequeue", 1, 1, kQueue},
    {"QueueDequeueMany", 1, 1, "queue:text components:ints count:int"},
    {"QueueEnqueue", 1, kMany, kQueue},
    {"QueueEnqueueMany", 1, kMany, kQueue},
    {"QueueHandle", 0, 0, "capacity:int components:ints container:text shared_name:text"},
    {"QueueSize", 1, 1, ""},
    {"RandomInt", 1, 1, "shape:shape dtype:dtype low:int high:int"},
    {"RandomKey", 0, 0, "seed:int counter:int call:int"},
    {"RandomNormal", 1, 1, "shape:shape dtype:dtype mean:float stddev:float"},
    {"RandomPermutation", 2, 2, ""},
    {"RandomTruncatedNormal", 1, 1, "shape:shape dtype:dtype mean:float stddev:float"},
    {"RandomUniform", 1, 1, "shape:shape dtype:dtype low:float high:float"},
    {"Range", 0, 0, "start:float limit:float step:float dtype:dtype"},
    {"Rank", 1, 1, ""},
    {"ReadRows", 2, 2, kDeclared},
    {"ReadShard", 2, 2, ""},
    {"ReadVariable", 1, 1, "dtype:dtype shape:shape trainable:bool"},
    {"Reciprocal", 1, 1, ""},
    {"Recv", 0, 0, "edge:int sender:text tensor:text dtype:dtype shape:shape"},
    {"ReduceLoss", 1, 1, "mean:bool global_batch_size:int"},
    {"ReduceLossGrad", 2, 2, "mean:bool global_batch_size:int"},
    {"Relu", 1, 1, ""},
    {"Relu6", 1, 1, ""},
    {"Relu6Grad", 2, 2, "", kOneDType},
    {"ReluGrad", 2, 2, "", kOneDType},
    {"RemoveShards", 1, 1, ""},
    {"Repeat", 2, 2, ""},
    {"ReplicaAllGather", 1, 1,
     "axis:int replicas:int bytes_per_pack:int timeout:float implementation:int what:text "
     "file:text line:int"},
    {"ReplicaAllReduce", 1, kMany,
     "op:int replicas:int bytes_per_pack:int timeout:float implementation:int what:text "
     "file:text line:int"},
    {"Require", 2, 2, "text:text"},
    {"Reshape", 1, 1, "shape:shape"},
    {"ReshapeLike", 2, 2, ""},
    {"Round", 1, 1, ""},
    {"RowsInRange", 1, 1, "begin:int end:int"},
    {"Rsqrt", 1, 1, ""},
    {"Scatter", 2, 2, "shape:shape"},
    {"ScatterVariable", 3, 3, "op:int dtype:dtype shape:shape"},
    {"Send", 1, 1, "edge:int"},
    {"Shape", 1, 1, ""},
    {"Sigmoid", 1, 1, ""},
    {"SigmoidCrossEntropy", 2, 2, "", kOneDType},
    {"Sign", 1, 1, ""},
    {"Sin", 1, 1, ""},
    {"Size", 1, 1, ""},
    {"Slice", 1, 1, kSlicing},
    {"SliceGrad", 2, 2, kSlicing, kOneDType},
    {"Softmax", 1, 1, "axis:int"},
    {"SoftmaxCrossEntropy", 2, 2, ""},
    {"SoftmaxCrossEntropyGrad", 4, 4, ""},
    {"SoftmaxGrad", 2, 2, "axis:int", kOneDType},
    {"Softplus", 1, 1, ""},
    {"Sort", 1, 1, "axis:int descending:bool"},
    {"SparseAccumulatorApply", 4, 4, "accumulator:text dtype:dtype shape:shape"},
    {"SparseAccumulatorTake", 2, 2, kDeclared},
    {"Split", 1, 1, "sizes:ints equal:bool axis:int"},
    {"Spread", 2, 2, "axes:axes all:bool keep:bool mean:bool"},
    {"Sqrt", 1, 1, ""},
    {"Square", 1, 1, ""},
    {"SquaredError", 2, 2, "", kOneDType},
    {"Squeeze", 1, 1, "axes:axes all:bool"},
    {"Stack", 1, kMany, "axis:int", kOneDType},
    {"StartIterator", 1, 1, ""},
    {"StopGradient", 1, 1, ""},
    {"Sub", 2, 2, "", kOneDType},
    {"Sum", 1, 1, kReduction},
    {"SumLike", 2, 2, ""},
    {"TakeAlong", 2, 2, "axis:int"},
    {"Tanh", 1, 1, ""},
    {"Tile", 1, 1, "multiples:axes"},
    {"TileGrad", 2, 2, "multiples:axes", kOneDType},
    {"TimelinePart", 1, 3, "part:text"},
    {"TopK", 1, 1, "k:int"},
    {"Transpose", 1, 1, "permutation:axes"},
    {"Unique", 1, 1, ""},
    {"Unstack", 1, 1, "count:int axis:int"},
    {"VariableHandle", 0, 0, "container:text shared_name:text"},
    {"VariableIsInitialized", 1, 1, ""},
    {"Where", 3, 3, ""},
    {"While", 0, kMany, kLoop},
    {"WhileGrad", 0, kMany,
     "condition:function body:function num_state:int maximum_iterations:int "
     "body_gradient:function"},
    {"WorkerAllGather", 1, 1,
     "axis:int port:int bytes_per_pack:int timeout:float implementation:int what:text "
     "file:text line:int"},
    {"WorkerAllReduce", 1, kMany,
     "op:int port:int bytes_per_pack:int timeout:float implementation:int what:text "
     "file:text line:int"},
    {"WorkerBroadcast", 1, 1,
     "port:int bytes_per_pack:int timeout:float implementation:int what:text file:text line:int"},
    {"WriteShard", 2, 2, "slot:text"},
    {"Zeros", 0, 0, "shape:shape dtype:dtype"},
    {"ZerosLike", 1, 1, ""},
};

constexpr std::pair<std::string_view, AttrKind> kKinds[] = {
    {"bool", AttrKind::Bool},     {"int", AttrKind::Int},           {"float", AttrKind::Float},
    {"text", AttrKind::Text},     {"dtype", AttrKind::DType},       {"shape", AttrKind::Shape},
    {"pair", AttrKind::Pair},     {"axes", AttrKind::Axes},         {"ints", AttrKind::Ints},
    {"tensor", AttrKind::Tensor}, {"function", AttrKind::Function},
};

AttrKind kind_of(std::string_view word) {
  for (const auto& [name, kind] : kKinds) {
    if (name == word) return kind;
  }
  raise(Code::Internal, "[Graph] no kind of attribute is called '{}'", word);
}

OpSignature parse(const Line& line) {
  OpSignature signature{
      .least_inputs = line.least, .most_inputs = line.most, .one_dtype = line.one_dtype};
  std::string_view rest = line.attrs;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    const size_t colon = word.find(':');
    signature.attrs.push_back({word.substr(0, colon), kind_of(word.substr(colon + 1))});
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return signature;
}

using Signatures = std::unordered_map<std::string_view, OpSignature>;

const Signatures& signatures() {
  static const Signatures* const all = [] {
    auto* made = new Signatures();
    for (const Line& line : kLines) made->emplace(line.op, parse(line));
    return made;
  }();
  return *all;
}

bool has_length(const AttrValue& value, size_t least, size_t most) {
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list != nullptr && list->size() >= least && list->size() <= most;
}

}  // namespace

const OpSignature* find_signature(std::string_view op) {
  const auto found = signatures().find(op);
  return found == signatures().end() ? nullptr : &found->second;
}

std::string_view to_string(AttrKind kind) {
  switch (kind) {
    case AttrKind::Bool:
      return "a bool";
    case AttrKind::Int:
      return "an integer";
    case AttrKind::Float:
      return "a number";
    case AttrKind::Text:
      return "a text";
    case AttrKind::DType:
      return "a dtype";
    case AttrKind::Shape:
      return "a shape";
    case AttrKind::Pair:
      return "two integers";
    case AttrKind::Axes:
      return "at most 8 integers";
    case AttrKind::Ints:
      return "a list of integers";
    case AttrKind::Tensor:
      return "a tensor";
    case AttrKind::Function:
      return "a function";
  }
  return "";
}

bool matches(AttrKind kind, const AttrValue& value) {
  switch (kind) {
    case AttrKind::Bool:
      return std::holds_alternative<bool>(value);
    case AttrKind::Int:
      return std::holds_alternative<int64_t>(value);
    case AttrKind::Float:
      return std::holds_alternative<double>(value);
    case AttrKind::Text:
      return std::holds_alternative<std::string>(value);
    case AttrKind::DType:
      return std::holds_alternative<DType>(value);
    case AttrKind::Shape:
      return std::holds_alternative<Shape>(value);
    case AttrKind::Pair:
      return has_length(value, 2, 2);
    case AttrKind::Axes:
      return has_length(value, 0, Shape::kMaxRank);
    case AttrKind::Ints:
      return has_length(value, 0, kLongestList);
    case AttrKind::Tensor:
      return std::holds_alternative<Tensor>(value);
    case AttrKind::Function:
      return std::holds_alternative<std::shared_ptr<const GraphFunction>>(value);
  }
  return false;
}

void check_call(std::string_view op, const OpSignature& signature, size_t inputs,
                const Attrs& attrs) {
  if (inputs < static_cast<size_t>(signature.least_inputs) ||
      inputs > static_cast<size_t>(signature.most_inputs)) {
    const bool many = signature.most_inputs == kMany;
    raise(Code::InvalidArgument, "[{}] takes {}{} inputs, got {}", op, signature.least_inputs,
          many ? " or more" : fmt::format(" to {}", signature.most_inputs), inputs);
  }
  for (const AttrSignature& wanted : signature.attrs) {
    const auto entry = std::find_if(attrs.entries().begin(), attrs.entries().end(),
                                    [&](const auto& e) { return e.first == wanted.name; });
    if (entry == attrs.entries().end()) {
      raise(Code::InvalidArgument, "[{}] lacks the attribute '{}'", op, wanted.name);
    }
    if (!matches(wanted.kind, entry->second)) {
      raise(Code::InvalidArgument, "[{}] attribute '{}' must be {}", op, wanted.name,
            to_string(wanted.kind));
    }
  }
  if (attrs.entries().size() != signature.attrs.size()) {
    raise(Code::InvalidArgument, "[{}] has {} attributes, got {}", op, signature.attrs.size(),
          attrs.entries().size());
  }
}

}  // namespace cohort::internal
