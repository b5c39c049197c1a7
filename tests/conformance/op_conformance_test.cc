// Every op in the list, through one set of tests. An op takes part by having an example in
// examples/; EveryOpHasAnExample fails for one that has none.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "cohort/cohort.h"
#include "conformance/op_example.h"
#include "ops/dispatch.h"
#include "support/find_op.h"
#include "tensor/aten.h"
#include "tensor/memory.h"

namespace cohort::testing {
namespace {

using internal::OpCall;
using internal::OpDef;

std::vector<OpExample> all_examples() {
  std::vector<OpExample> all;
  for (const auto& family : {elementwise_examples, shape_examples, reduce_examples, random_examples,
                             nn_examples, state_examples, graph_examples, replica_examples}) {
    for (OpExample& example : family()) all.push_back(std::move(example));
  }
  return all;
}

const std::vector<OpExample>& examples() {
  static const auto* all = new std::vector<OpExample>(all_examples());
  return *all;
}

// Takes down every op call of this thread.
class Capture : public internal::Recorder {
 public:
  Capture() {
    outer = internal::thread_dispatch().recorder;
    internal::thread_dispatch().recorder = this;
  }
  ~Capture() override { internal::thread_dispatch().recorder = outer; }
  bool wants(std::span<const Tensor>) const override { return true; }
  void record(const OpCall& call) override { calls.push_back(call); }
  void variable_read(const Tensor&, const Tensor&, bool) override {}

  std::vector<OpCall> calls;
};

std::vector<OpCall> calls_of(const OpExample& example, const Tensors& inputs) {
  Capture capture;
  example.call(inputs);
  std::erase_if(capture.calls, [&](const OpCall& call) { return call.op->name != example.op; });
  return capture.calls;
}

// A tensor of that dtype with nothing known but what `shape` says.
Tensor symbol(DType dtype, const Shape& shape) {
  auto made = std::make_shared<internal::SymbolBody>();
  made->kind = internal::TensorBody::Kind::Symbol;
  made->dtype = dtype;
  made->shape = shape;
  return internal::TensorAccess::make(std::move(made));
}

Tensor with_hidden_sizes(const Tensor& tensor, bool hide_rank) {
  if (tensor.dtype() == kResource) return tensor;
  if (hide_rank) return symbol(tensor.dtype(), Shape::unknown());
  return symbol(tensor.dtype(),
                Shape(std::vector<int64_t>(static_cast<size_t>(tensor.rank()), -1)));
}

// What is inferred from `inputs` is true of the outputs that the call has.
void expect_inferred(const OpCall& call, std::span<const Tensor> inputs) {
  const internal::Specs specs = call.op->infer({call.op->name, inputs, call.attrs});
  ASSERT_EQ(specs.size(), call.outputs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].dtype, call.outputs[i].dtype());
    EXPECT_TRUE(specs[i].shape.is_compatible_with(call.outputs[i].shape()))
        << "output " << i << ": inferred " << specs[i].shape << ", actual "
        << call.outputs[i].shape();
  }
}

void expect_inferred_with_hidden_sizes(const OpCall& call, bool hide_rank) {
  Tensors hidden;
  for (const Tensor& input : call.inputs) hidden.push_back(with_hidden_sizes(input, hide_rank));
  expect_inferred(call, hidden);
}

std::vector<at::Tensor> torch_inputs(const Tensors& inputs, bool with_gradients) {
  std::vector<at::Tensor> converted;
  for (const Tensor& input : inputs) {
    at::Tensor copy = internal::aten(input).cpu().clone();
    if (with_gradients && copy.is_floating_point()) copy.requires_grad_(true);
    converted.push_back(copy);
  }
  return converted;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().cpu().to(at::kDouble);
  const at::Tensor y = b.detach().cpu().to(at::kDouble);
  // Equal infinities and NaNs in the same place count as equal.
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
  const at::Tensor scaled = (x - y).abs() / (1 + y.abs());
  return at::where(same, at::zeros_like(scaled), scaled).max().item<double>();
}

void expect_close(const Tensor& actual, const at::Tensor& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(internal::aten(actual).sizes(), expected.sizes()) << what;
  EXPECT_LE(difference(internal::aten(actual), expected), tolerance)
      << what << ": got " << actual << "\nexpected "
      << Tensor(internal::from_aten(expected.detach()));
}

// One number that depends on every floating output, with weights that differ for every element.
Tensor weighted_sum(const Tensors& outputs) {
  Tensor total(0.0);
  for (const Tensor& output : outputs) {
    if (!is_floating(output.dtype())) continue;
    const int64_t count = output.size();
    const Tensor weights = internal::from_aten((at::arange(count, at::kDouble) * 0.37)
                                                   .sin()
                                                   .add(1.5)
                                                   .reshape(internal::aten(output).sizes()));
    total = total + sum(cast(output, kFloat64) * weights);
  }
  return total;
}

bool is_differentiable(const OpExample& example) {
  const OpDef& op = internal::find_op(example.op);
  return op.gradient != nullptr && !example.shapes_only;
}

// Tensors of their own, so that an example that gives one tensor twice has two sources.
Tensors separate(const Tensors& inputs) {
  Tensors copies;
  for (const Tensor& input : inputs) {
    copies.push_back(is_numeric(input.dtype()) ? internal::from_aten(internal::aten(input))
                                               : input);
  }
  return copies;
}

Gradients taped_gradients(const OpExample& example, const Tensors& given) {
  GradientTape tape;
  const Tensors inputs = separate(given);
  Tensors watched;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype())) continue;
    tape.watch(input);
    watched.push_back(input);
  }
  return tape.gradient(weighted_sum(example.call(inputs)), watched,
                       {.unconnected = Unconnected::Zero});
}

Tensor with_element_changed(const Tensor& tensor, int64_t element, double delta) {
  at::Tensor copy = internal::aten(tensor).cpu().clone().contiguous();
  copy.data_ptr<double>()[element] += delta;
  return internal::from_aten(copy);
}

double numeric_slope(const OpExample& example, const Tensors& inputs, size_t input,
                     int64_t element) {
  constexpr double kStep = 1e-6;
  Tensors changed = inputs;
  changed[input] = with_element_changed(inputs[input], element, kStep);
  const double above = weighted_sum(example.call(changed)).to<double>();
  changed[input] = with_element_changed(inputs[input], element, -kStep);
  const double below = weighted_sum(example.call(changed)).to<double>();
  return (above - below) / (2 * kStep);
}

Tensors converted(const OpExample& example, DType dtype) {
  Tensors inputs = example.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool listed = std::find(example.typed_inputs.begin(), example.typed_inputs.end(), i) !=
                        example.typed_inputs.end();
    const bool typed = example.typed_inputs.empty() ? is_floating(inputs[i].dtype()) : listed;
    if (typed) inputs[i] = cast(inputs[i], dtype);
  }
  return inputs;
}

// Ops run on the device that COHORT_CONFORMANCE_DEVICE names, or on the CPU. Half of the inputs are
// on that device, and half on the CPU.
class OpConformance : public ::testing::TestWithParam<size_t> {
 protected:
  OpConformance() {
    if (const char* const device = std::getenv("COHORT_CONFORMANCE_DEVICE")) here_.emplace(device);
  }

  const OpExample& example() const { return examples()[GetParam()]; }
  bool is_placed() const { return here_.has_value(); }
  std::vector<Tensors> all_inputs() const {
    std::vector<Tensors> all{example().inputs};
    all.insert(all.end(), example().more_inputs.begin(), example().more_inputs.end());
    for (Tensors& inputs : all) {
      for (size_t i = 0; here_ && i < inputs.size(); i += 2) {
        inputs[i] = internal::on_device(inputs[i], internal::value_device());
      }
    }
    return all;
  }

 private:
  std::optional<DeviceScope> here_;
};

TEST_P(OpConformance, InfersWhatItComputes) {
  for (const Tensors& inputs : all_inputs()) {
    const std::vector<OpCall> calls = calls_of(example(), inputs);
    ASSERT_FALSE(calls.empty()) << "the example does not run " << example().op;
    for (const OpCall& call : calls) {
      expect_inferred(call, call.inputs);
      expect_inferred_with_hidden_sizes(call, false);
      expect_inferred_with_hidden_sizes(call, true);
    }
  }
}

// The call, as a graph that comes from elsewhere would have it, is taken.
TEST_P(OpConformance, HasTheSignatureThatReadersOfGraphsExpect) {
  for (const Tensors& inputs : all_inputs()) {
    for (const OpCall& call : calls_of(example(), inputs)) {
      internal::check_call(*call.op, call.inputs.size(), call.attrs);
      const bool one_dtype = call.op->traits.has(internal::Trait::OneDType);
      for (const Tensor& input : call.inputs) {
        EXPECT_TRUE(!one_dtype || input.dtype() == call.inputs[0].dtype());
      }
    }
  }
}

TEST_P(OpConformance, ComputesWhatTorchComputes) {
  if (!example().torch || example().shapes_only) return;
  for (const Tensors& inputs : all_inputs()) {
    const Tensors outputs = example().call(inputs);
    const std::vector<at::Tensor> expected = example().torch(torch_inputs(inputs, false));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      expect_close(outputs[i], expected[i], 1e-10, "output " + std::to_string(i));
    }
  }
}

TEST_P(OpConformance, GradientIsTheSlopeOfTheValue) {
  if (!is_differentiable(example())) return;
  const Tensors& inputs = example().inputs;
  const Gradients gradients = taped_gradients(example(), inputs);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    const Tensor gradient = gradients[next++];
    ASSERT_EQ(gradient.shape(), inputs[i].shape()) << "input " << i;
    for (int64_t element = 0; element < inputs[i].size(); ++element) {
      const double slope = numeric_slope(example(), inputs, i, element);
      const double got = gradient.to_vector<double>()[static_cast<size_t>(element)];
      EXPECT_NEAR(got, slope, 1e-5 * (1 + std::abs(slope)))
          << "input " << i << " element " << element;
    }
  }
}

TEST_P(OpConformance, GradientIsTorchs) {
  if (!is_differentiable(example()) || !example().torch) return;
  for (const Tensors& inputs : all_inputs()) {
    const std::vector<at::Tensor> sources = torch_inputs(inputs, true);
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const at::Tensor& output : example().torch(sources)) {
      if (!output.is_floating_point()) continue;
      const at::Tensor weights = (at::arange(output.numel(), at::kDouble) * 0.37).sin().add(1.5);
      total = total + (output.to(at::kDouble) * weights.reshape(output.sizes())).sum();
    }
    if (!total.requires_grad()) continue;
    total.backward();
    const Gradients gradients = taped_gradients(example(), inputs);
    size_t next = 0;
    for (const at::Tensor& source : sources) {
      if (!source.is_floating_point()) continue;
      const at::Tensor expected = source.grad().defined() ? source.grad() : at::zeros_like(source);
      expect_close(gradients[next], expected, 1e-9, "gradient " + std::to_string(next));
      ++next;
    }
  }
}

// The example's outputs, then the gradient of each floating input.
Tensors values_and_gradients(const OpExample& example, std::span<const Tensor> inputs) {
  GradientTape tape;
  Tensors watched;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype())) continue;
    tape.watch(input);
    watched.push_back(input);
  }
  Tensors results = example.call(inputs);
  if (!is_differentiable(example)) return results;
  Tensor total(0.0);
  for (const Tensor& output : results) {
    if (is_floating(output.dtype())) total = total + sum(cast(square(output), kFloat64));
  }
  for (const Gradient& gradient :
       tape.gradient({total}, watched, {.unconnected = Unconnected::Zero})) {
    results.push_back(gradient.dense());
  }
  return results;
}

void expect_same(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_close(actual[i], internal::aten(expected[i]), 1e-12, "result " + std::to_string(i));
  }
}

TEST_P(OpConformance, GivesTheSameInATracedFunction) {
  if (example().shapes_only) return;
  const internal::FunctionCore traced("example");
  const auto body = [&](std::span<const Tensor> in) {
    return internal::TracedResults{values_and_gradients(example(), in), {}};
  };
  for (const Tensors& given : all_inputs()) {
    const Tensors inputs = separate(given);
    expect_same(traced.call({.tensors = inputs}, body).tensors, body(inputs).tensors);
  }
}

TEST_P(OpConformance, GivesTheSameInAGraphWithUnknownSizes) {
  if (example().shapes_only || example().needs_sizes) return;
  for (const Tensors& given : all_inputs()) {
    const Tensors inputs = separate(given);
    const Tensors expected = values_and_gradients(example(), inputs);
    Graph graph;
    auto building = graph.as_default();
    Tensors symbols;
    Feeds feeds;
    for (const Tensor& input : inputs) {
      const Shape hidden(std::vector<int64_t>(static_cast<size_t>(input.rank()), -1));
      symbols.push_back(placeholder(input.dtype(), hidden));
      feeds.push_back({symbols.back(), input});
    }
    const Tensors fetches = values_and_gradients(example(), symbols);
    // Ops that exist on CPUs only leave the scope of a GPU.
    Session session("", {.allow_soft_placement = is_placed()});
    expect_same(session.run(fetches, feeds), expected);
  }
}

TEST_P(OpConformance, TakesEveryDtypeItClaims) {
  const OpDef& op = internal::find_op(example().op);
  if (example().shapes_only) return;
  const Tensors reference = example().call(example().inputs);
  for (int number = 0; number <= static_cast<int>(DType::Bool); ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!op.dtypes.has(dtype)) continue;
    SCOPED_TRACE(to_string(dtype));
    const Tensors outputs = example().call(converted(example(), dtype));
    ASSERT_EQ(outputs.size(), reference.size());
    if (!is_floating(dtype)) continue;
    const double tolerance = size_of(dtype) == 2 ? 0.06 : 1e-4;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (is_floating(outputs[i].dtype())) {
        expect_close(outputs[i], internal::aten(reference[i]), tolerance, "output");
      }
    }
  }
}

TEST_P(OpConformance, NamesWhatIsWrong) {
  for (const BadCall& bad : example().bad_calls) {
    try {
      bad.call();
      ADD_FAILURE() << "nothing was thrown; expected \"" << bad.fragment << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), bad.code) << error.what();
      EXPECT_NE(error.message().find(bad.fragment), std::string::npos)
          << '"' << error.message() << "\" lacks \"" << bad.fragment << '"';
    }
  }
}

std::string example_name(const ::testing::TestParamInfo<size_t>& info) {
  return std::string(examples()[info.param].op) + "_" + std::to_string(info.param);
}

INSTANTIATE_TEST_SUITE_P(AllOps, OpConformance, ::testing::Range<size_t>(0, examples().size()),
                         example_name);

TEST(OpList, EveryOpHasAnExample) {
  std::set<std::string_view> covered;
  for (const OpExample& example : examples()) covered.insert(example.op);
  for (const OpDef* op : internal::all_ops()) {
    EXPECT_TRUE(covered.contains(op->name)) << op->name << " has no example";
  }
}

// The placer moves these ops away from other devices, and refuses to where it may not. An op that
// gets or loses the trait changes which graphs can be placed.
TEST(OpList, TheseOpsHaveKernelsOnCpusOnly) {
  std::set<std::string_view> found;
  for (const OpDef* op : internal::all_ops()) {
    if (op->traits.has(internal::Trait::HostOnly)) found.insert(op->name);
  }
  const std::set<std::string_view> expected = {"ForgetState",        "HoldPresence",
                                               "HoldTensors",        "IteratorHandle",
                                               "IteratorNext",       "IteratorNextOptional",
                                               "LoadShard",          "NativeFunction",
                                               "NativeFunctionGrad", "Print",
                                               "QueueClose",         "QueueDequeue",
                                               "QueueDequeueMany",   "QueueEnqueue",
                                               "QueueEnqueueMany",   "QueueHandle",
                                               "QueueSize",          "ReadShard",
                                               "RemoveShards",       "StartIterator",
                                               "WriteShard"};
  EXPECT_EQ(found, expected);
}

TEST(OpList, EveryOpIsWhole) {
  std::set<std::string_view> names;
  for (const OpDef* op : internal::all_ops()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is listed twice";
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->compute, nullptr) << op->name;
    EXPECT_TRUE(op->gradient != nullptr || !op->no_gradient_because.empty())
        << op->name << " has neither a gradient nor a reason for having none";
    EXPECT_EQ(&internal::find_op(op->name), op);
  }
}

}  // namespace
}  // namespace cohort::testing
