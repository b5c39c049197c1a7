// cohort/torch.h as a program sees it: included first, then `using namespace cohort`.

#include <cohort/torch.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

using namespace cohort;

namespace {

using Doubles = std::vector<double>;

TEST(FromTorch, SharesMemory) {
  const torch::Tensor theirs = torch::arange(6, torch::kFloat32).reshape({2, 3});
  const Tensor ours = theirs;
  EXPECT_EQ(ours.shape(), Shape({2, 3}));
  EXPECT_EQ(ours.dtype(), kFloat32);
  EXPECT_EQ(ours.data<float>().data(), theirs.data_ptr<float>());
}

TEST(FromTorch, TakesEveryCommonType) {
  const std::pair<torch::ScalarType, DType> kTypes[] = {
      {torch::kFloat16, kFloat16}, {torch::kBFloat16, kBFloat16}, {torch::kFloat32, kFloat32},
      {torch::kFloat64, kFloat64}, {torch::kInt8, kInt8},         {torch::kInt16, kInt16},
      {torch::kInt32, kInt32},     {torch::kInt64, kInt64},       {torch::kUInt8, kUInt8},
      {torch::kBool, kBool}};
  for (const auto& [theirs, ours] : kTypes) {
    const Tensor tensor = torch::ones({2}, theirs);
    EXPECT_EQ(tensor.dtype(), ours);
    EXPECT_EQ(tensor.to_vector<double>(), Doubles({1, 1}));
    EXPECT_EQ(torch::Tensor(tensor).scalar_type(), theirs);
  }
}

TEST(FromTorch, TakesViews) {
  const torch::Tensor theirs = torch::arange(6, torch::kFloat64).reshape({2, 3});
  const Tensor turned = theirs.t();
  EXPECT_EQ(turned.to_vector<double>(), Doubles({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(sum(turned, 0).to_vector<double>(), Doubles({3, 12}));
  const Tensor spread = torch::ones({1}, torch::kFloat64).expand({3});
  EXPECT_EQ((spread + spread).to_vector<double>(), Doubles({2, 2, 2}));
}

TEST(FromTorch, ShowsWhatTorchWritesLater) {
  const torch::Tensor memory = torch::zeros({2, 3});
  const torch::Tensor wide = torch::zeros({2, 6});
  const torch::Tensor one = torch::zeros({1});
  const torch::Tensor shifted = torch::zeros({7});
  const std::pair<torch::Tensor, torch::Tensor> kViews[] = {
      {memory, memory},                // dense
      {memory, memory.t()},            // turned
      {wide, wide.slice(1, 0, 6, 2)},  // every second column
      {one, one.expand({6})},          // one element, six times
      {shifted, shifted.slice(0, 1)},  // a part of it
      {memory, memory.t().unsqueeze(0).expand({2, 3, 2})}};
  for (const auto& [written, view] : kViews) {
    written.zero_();
    const Tensor ours = view;
    const auto seen = [&](float value) {
      const auto all = static_cast<size_t>(ours.size());
      EXPECT_EQ(ours.to_vector<double>(), Doubles(all, value));
      EXPECT_EQ(ours.to_vector<float>(), std::vector<float>(all, value));
      EXPECT_EQ(ours.data<float>().back(), value);
      EXPECT_EQ(sum(ours).to<float>(), value * static_cast<float>(all));
      EXPECT_EQ(ours.to_string(), (ours + 0.f).to_string());
      EXPECT_EQ((ours.rank() == 1   ? ours.at<float>({-1})
                 : ours.rank() == 2 ? ours.at<float>({-1, -1})
                                    : ours.at<float>({-1, -1, -1})),
                value);
    };
    seen(0);
    written.fill_(3);
    seen(3);
    written.data().fill_(4);  // torch does not count this as a change
    seen(4);
    for (int64_t i = 0; i < written.numel(); ++i) written.data_ptr<float>()[i] = 5;
    seen(5);
  }
}

TEST(FromTorch, ReadsElementsOfViewsInRowOrder) {
  const torch::Tensor theirs = torch::arange(24, torch::kFloat32).reshape({2, 3, 4});
  const Tensor ours = theirs.permute({2, 0, 1});
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 0; k < 3; ++k) {
        const float expected = theirs[j][k][i].item<float>();
        EXPECT_EQ(ours.at<float>({i, j, k}), expected);
        EXPECT_EQ(ours.data<float>()[static_cast<size_t>(i * 6 + j * 3 + k)], expected);
      }
    }
  }
  const Tensor empty = torch::empty({3, 0}).t();
  EXPECT_TRUE(empty.data<float>().empty());
}

TEST(FromTorch, KeepsSpansOfViewsUpToDate) {
  const torch::Tensor memory = torch::zeros({2, 2});
  const Tensor ours = memory.t();
  const auto before = ours.data<float>();
  memory.fill_(2);
  EXPECT_EQ(ours.data<float>().data(), before.data());  // both live as long as the tensor
  EXPECT_EQ(before[3], 2);
}

TEST(FromTorch, GivesDatasetsTheRowsOfAView) {
  const Tensor turned = torch::arange(40, torch::kFloat32).reshape({20, 2}).t();
  std::vector<float> seen;
  for (const data::Element& row : data::from_tensor_slices(turned)) {
    seen.push_back(row.tensor().at<float>({1}));
  }
  for (const data::Element& row : data::from_tensors(turned).unbatch()) {
    seen.push_back(row.tensor().at<float>({-1}));
  }
  EXPECT_EQ(seen, (std::vector<float>{2, 3, 38, 39}));
}

TEST(FromTorch, ShowsWhatTorchWritesIntoASmallTensor) {
  const Tensor ours(1.f);
  EXPECT_EQ(ours.to<float>(), 1);
  torch::Tensor(ours).fill_(2);
  EXPECT_EQ(ours.to<float>(), 2);
  EXPECT_EQ(ours.data<float>()[0], 2);
  EXPECT_EQ(format_values(ours), "2.");
}

// What torch writes later is not part of a function that was traced before.
TEST(FromTorch, IsAConstantOfTracedFunctions) {
  const torch::Tensor memory = torch::ones({3});
  for (const torch::Tensor& view : {memory, memory.slice(0, 0, 3), memory.expand({2, 3})}) {
    memory.fill_(1);
    const Tensor ours = view;
    const auto add = function([&](Tensor x) { return x + ours; });
    const auto folded = function([&](Tensor x) { return x + (ours * 2.f - ours); });
    const Tensor zeros({0.f, 0.f, 0.f});
    EXPECT_EQ(sum(add(zeros)).to<float>(), sum(folded(zeros)).to<float>());
    memory.fill_(5);
    EXPECT_EQ(mean(add(zeros)).to<float>(), 1);
    EXPECT_EQ(mean(folded(zeros)).to<float>(), 1);
  }
}

TEST(FromTorch, TakesEmptyScalarAndUndefinedOnes) {
  EXPECT_EQ(Tensor(torch::empty({0, 3})).shape(), Shape({0, 3}));
  EXPECT_EQ(Tensor(torch::tensor(2.5)).to<double>(), 2.5);
  EXPECT_FALSE(Tensor(torch::Tensor()).defined());
}

TEST(FromTorch, WritesLazyNegativesOut) {
  const torch::Tensor complex = torch::complex(torch::ones({2}), torch::full({2}, 3.f));
  const torch::Tensor negative = torch::imag(complex.conj());
  ASSERT_TRUE(negative.is_neg());
  EXPECT_EQ(Tensor(negative).to_vector<double>(), Doubles({-3, -3}));
}

TEST(FromTorch, NamesWhatHasNoCounterpart) {
  EXPECT_ERROR(Code::InvalidArgument, "torch's type ComplexFloat has no counterpart",
               Tensor(torch::ones({2}, torch::kComplexFloat)));
  EXPECT_ERROR(Code::InvalidArgument, "torch's type QInt8 has no counterpart",
               Tensor(torch::quantize_per_tensor(torch::ones({2}), 0.1, 0, torch::kQInt8)));
  EXPECT_ERROR(Code::InvalidArgument, "a dense torch tensor on the CPU, got layout Sparse",
               Tensor(torch::ones({2, 2}).to_sparse()));
  EXPECT_ERROR(Code::InvalidArgument, "on meta",
               Tensor(torch::ones({2}, torch::TensorOptions().device(torch::kMeta))));
}

TEST(ToTorch, SharesMemory) {
  const Tensor ours({{1.f, 2.f}, {3.f, 4.f}});
  const torch::Tensor theirs = ours;
  EXPECT_EQ(theirs.data_ptr<float>(), ours.data<float>().data());
  EXPECT_EQ(theirs.sizes(), (std::vector<int64_t>{2, 2}));
}

TEST(ToTorch, SharesMemoryOfOthersUntilBothAreGone) {
  bool released = false;
  const std::vector<float> memory{1, 2};
  torch::Tensor theirs;
  {
    const Tensor ours =
        Tensor::from_memory(memory.data(), kFloat32, {2}, [&released] { released = true; });
    theirs = ours;
    EXPECT_EQ(theirs.data_ptr<float>(), memory.data());
  }
  EXPECT_FALSE(released);
  theirs.reset();
  EXPECT_TRUE(released);
}

TEST(ToTorch, NamesWhatTorchCannotHold) {
  EXPECT_ERROR(Code::InvalidArgument, "needs numbers, got a string tensor",
               torch::Tensor(Tensor("text")));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", torch::Tensor(Tensor()));
}

TEST(ToTorch, HoldsAVariablesValueStill) {
  Variable v({1.f, 2.f});
  const torch::Tensor theirs = v.read_value();
  v.assign_add(1.f);
  EXPECT_EQ(theirs[0].item<float>(), 1);
}

TEST(TorchAutograd, SurvivesTheRoundTrip) {
  const torch::Tensor x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  const torch::Tensor y = x * x;
  const torch::Tensor back = Tensor(y);
  ASSERT_TRUE(back.requires_grad());
  back.sum().backward();
  EXPECT_EQ(Tensor(x.grad()).to_vector<double>(), Doubles({2, 4}));
}

TEST(TorchAutograd, DoesNotSeeOurOps) {
  const torch::Tensor x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  const torch::Tensor y = Tensor(x) * Tensor(x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(Tensor(y).to_vector<double>(), Doubles({1, 4}));
}

TEST(TorchAutograd, LeavesOurTapeTheGradient) {
  const Tensor x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(sum(x * x), x).dense().to_vector<double>(), Doubles({2, 4}));
}

TEST(TorchAutograd, UsesOurResults) {
  const Tensor factor = Tensor({1.0, 2.0}) * 3.0;
  const Tensor view = reshape(Tensor({{4.0, 5.0}}), {2});
  const torch::Tensor x = torch::tensor({1.0, 1.0}, torch::requires_grad());
  torch::Tensor y = x * torch::Tensor(factor) * torch::Tensor(view);
  EXPECT_FALSE(torch::Tensor(factor).is_inference());
  y.sum().backward();
  EXPECT_EQ(Tensor(x.grad()).to_vector<double>(), Doubles({12, 30}));
}

TEST(TorchAutograd, TrainsAVariableOfOurs) {
  Variable v({1.0, 2.0});
  const torch::Tensor parameter = torch::Tensor(v.read_value()).detach().requires_grad_();
  (parameter * parameter).sum().backward();
  optim::Sgd({.learning_rate = 0.5}).apply_gradients({Tensor(parameter.grad())}, {v});
  EXPECT_EQ(v.read_value().to_vector<double>(), Doubles({0, 0}));
  EXPECT_EQ(Tensor(parameter).to_vector<double>(), Doubles({1, 2}));
}

// Operators of both libraries side by side: each keeps to its own tensors.
TEST(Operators, AreNotAmbiguous) {
  const torch::Tensor theirs = torch::tensor({1.0, 2.0});
  const torch::Tensor scaled = theirs * 2.0 + theirs - 1;
  EXPECT_EQ(scaled[1].item<double>(), 5);
  EXPECT_TRUE((theirs == theirs).all().item<bool>());
  EXPECT_EQ((-theirs)[0].item<double>(), -1);
  const Tensor ours = theirs;
  EXPECT_EQ((2.0 * ours + ours - 1).to_vector<double>(), Doubles({2, 5}));
  EXPECT_EQ((Variable(ours) * ours).to_vector<double>(), Doubles({1, 4}));
}

TEST(Functions, OfBothLibrariesMeet) {
  const torch::Tensor theirs = torch::tensor({1.0, 2.0});
  EXPECT_EQ(exp(Tensor(theirs)).to_vector<double>(),
            Tensor(torch::exp(theirs)).to_vector<double>());
  EXPECT_EQ(matmul(theirs.reshape({1, 2}), theirs.reshape({2, 1})).item<double>(), 5);
}

// A module that torch differentiates.
torch::nn::Linear& layer() {
  static torch::nn::Linear made = [] {
    torch::nn::Linear linear(torch::nn::LinearOptions(2, 1).bias(false));
    torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::tensor({{3.f, 5.f}}));
    return linear;
  }();
  return made;
}

Tensor forward(const Tensor& x) { return layer()->forward(x).detach(); }

std::vector<Tensor> backward(std::span<const Tensor> inputs, std::span<const Tensor>,
                             std::span<const Tensor> output_gradients) {
  const torch::Tensor x = torch::Tensor(inputs[0]).detach().requires_grad_(true);
  layer()->forward(x).backward(output_gradients[0]);
  return {x.grad()};
}

COHORT_FUNCTION_WITH_GRADIENT(test_torch_linear, forward, backward);

TEST(NativeTorchModule, IsANodeWithTorchsGradient) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2});
  const Tensor y = call_native("test_torch_linear", {x}, {{kFloat32, {-1, 1}}})[0];
  const Tensor slope = gradients({sum(y * y)}, std::vector<Tensor>{x})[0];
  Session session;
  const std::vector<Tensor> values = session.run({y, slope}, {{x, Tensor({{1.f, 2.f}})}});
  EXPECT_EQ(values[0].to_vector<double>(), Doubles({13}));
  EXPECT_EQ(values[1].to_vector<double>(), Doubles({78, 130}));
}

}  // namespace
