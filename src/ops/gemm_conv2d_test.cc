#include "ops/gemm_conv2d.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

struct Case {
  std::string name;
  std::vector<int64_t> x;
  std::vector<int64_t> kernel;
  Window2d window;  // its size is the kernel's
};

std::vector<Case> cases() {
  return {
      {"plain", {3, 2, 7, 6}, {4, 2, 3, 2}, {{}, {1, 1}, {1, 1}, {0, 0}, false}},
      {"padded", {2, 1, 9, 28}, {6, 1, 5, 5}, {{}, {1, 1}, {1, 1}, {2, 2}, false}},
      {"wide padding", {2, 1, 3, 3}, {2, 1, 3, 3}, {{}, {1, 1}, {1, 1}, {7, 9}, false}},
      {"strides", {2, 3, 8, 9}, {2, 3, 3, 3}, {{}, {2, 3}, {1, 1}, {1, 2}, false}},
      {"dilation", {2, 2, 9, 20}, {3, 2, 2, 3}, {{}, {1, 1}, {3, 4}, {1, 3}, false}},
      {"all of them", {2, 2, 9, 20}, {3, 2, 2, 3}, {{}, {3, 2}, {2, 4}, {2, 5}, false}},
      {"same", {2, 2, 7, 6}, {3, 2, 4, 2}, {{}, {1, 1}, {1, 1}, {0, 0}, true}},
      {"same and strides", {2, 2, 7, 9}, {3, 2, 4, 3}, {{}, {2, 3}, {1, 2}, {0, 0}, true}},
      {"a kernel of one", {2, 3, 4, 4}, {5, 3, 1, 1}, {{}, {1, 1}, {1, 1}, {0, 0}, false}},
      {"several blocks", {2, 3, 70, 90}, {5, 3, 5, 5}, {{}, {1, 1}, {1, 1}, {2, 2}, false}},
      {"no images", {0, 2, 7, 6}, {4, 2, 3, 2}, {{}, {1, 1}, {1, 1}, {0, 0}, false}},
  };
}

// One case with its tensors, and what the kernel library makes of them.
class Contest {
 public:
  Contest(const Case& from, at::ScalarType dtype)
      : window_(from.window),
        x(at::randn(from.x, dtype)),
        kernel(at::randn(from.kernel, dtype)),
        bias(at::randn({from.kernel[0]}, dtype)) {
    window_.size = {from.kernel[2], from.kernel[3]};
    planes_.emplace(window_, x);
    g = at::randn_like(reference_forward());
  }

  GemmConv2d conv() const { return {window_, x, kernel}; }

  at::Tensor reference_forward() const {
    return at::convolution(planes_->extended(x, 0), kernel, bias, window_.stride, planes_->padding,
                           window_.dilation, false, {0, 0}, 1);
  }
  std::pair<at::Tensor, at::Tensor> reference_grads() const {
    const auto [x_grad, kernel_grad, none] = at::convolution_backward(
        g, planes_->extended(x, 0), kernel, c10::nullopt, window_.stride, planes_->padding,
        window_.dilation, false, {0, 0}, 1, {true, true, false});
    return {planes_->cropped(x_grad), kernel_grad};
  }

 private:
  Window2d window_;
  std::optional<PaddedPlanes> planes_;

 public:
  const at::Tensor x;
  const at::Tensor kernel;
  const at::Tensor bias;
  at::Tensor g;
};

void expect_near(const at::Tensor& ours, const at::Tensor& theirs) {
  ASSERT_EQ(ours.sizes(), theirs.sizes());
  const double tolerance = ours.scalar_type() == at::kFloat ? 1e-4 : 1e-12;
  EXPECT_TRUE(at::allclose(ours, theirs, tolerance, tolerance));
}

class GemmConv2dTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(GemmConv2dTest, ComputesWhatTheKernelLibraryDoes) {
  at::manual_seed(1);
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Contest contest(each, GetParam());
    const GemmConv2d conv = contest.conv();
    const auto [x_grad, kernel_grad] = contest.reference_grads();
    expect_near(conv.forward(contest.x, contest.kernel, contest.bias), contest.reference_forward());
    expect_near(conv.forward(contest.x, contest.kernel, {}),
                contest.reference_forward() - contest.bias.view({-1, 1, 1}));
    expect_near(conv.input_grad(contest.g, contest.kernel), x_grad);
    expect_near(conv.kernel_grad(contest.g, contest.x), kernel_grad);
  }
}

TEST_P(GemmConv2dTest, TakesTensorsThatLieInMemoryInAnotherOrder) {
  const Contest contest(cases()[1], GetParam());
  const at::Tensor turned = contest.x.transpose(2, 3).contiguous().transpose(2, 3);
  const at::Tensor strided = contest.g.transpose(0, 3).contiguous().transpose(0, 3);
  EXPECT_TRUE(at::equal(contest.conv().kernel_grad(strided, turned),
                        contest.conv().kernel_grad(contest.g, contest.x)));
}

INSTANTIATE_TEST_SUITE_P(Of, GemmConv2dTest, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& each) { return c10::toString(each.param); });

TEST(GemmConv2d, RefusesTensorsOfOtherSizes) {
  const Contest contest(cases()[0], at::kFloat);
  const GemmConv2d conv = contest.conv();
  EXPECT_ERROR(Code::InvalidArgument, "expected a tensor of shape (4,), got (3,)",
               conv.forward(contest.x, contest.kernel, at::ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "expected a tensor of shape (4, 2, 3, 2)",
               conv.forward(contest.x, at::ones({4, 1, 3, 2}), {}));
  EXPECT_ERROR(Code::InvalidArgument, "expected a tensor of shape (3, 4, 5, 5)",
               conv.input_grad(at::ones({3, 4, 5, 4}), contest.kernel));
  EXPECT_ERROR(Code::InvalidArgument, "expected a tensor of shape (3, 2, 7, 6)",
               conv.kernel_grad(contest.g, at::ones({2, 2, 7, 6})));
}

TEST(GemmConv2d, IsForFewChannelsAndOneThread) {
  const int before = at::get_num_threads();
  const GemmConv2d gray = Contest(cases()[1], at::kFloat).conv();     // 1 channel, 6 filters
  const GemmConv2d colored = Contest(cases()[3], at::kFloat).conv();  // 3 channels
  at::set_num_threads(1);
  EXPECT_TRUE(gray.forward_is_quicker() && gray.kernel_grad_is_quicker());
  EXPECT_TRUE(gray.input_grad_is_quicker() && colored.input_grad_is_quicker());
  EXPECT_FALSE(colored.forward_is_quicker() || colored.kernel_grad_is_quicker());
  at::set_num_threads(2);
  EXPECT_FALSE(gray.forward_is_quicker() || gray.kernel_grad_is_quicker());
  EXPECT_FALSE(gray.input_grad_is_quicker());
  at::set_num_threads(before);
}

}  // namespace
}  // namespace cohort::internal
