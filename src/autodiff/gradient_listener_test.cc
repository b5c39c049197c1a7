#include "cohort/internal/gradient_listener.h"

#include <gtest/gtest.h>

#include "cohort/ops.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

// Takes down what it hears.
struct Record : GradientListener {
  void begin(const std::vector<Variable>& sources) override {
    order.clear();
    gradients.assign(sources.size(), {});
  }
  void ready(size_t index, const Gradient& gradient) override {
    order.push_back(index);
    gradients[index] = gradient;
  }
  std::vector<size_t> order;
  Gradients gradients;
};

Record& record() {
  static Record heard;
  return heard;
}

class GradientListenerTest : public testing::Test {
 protected:
  GradientListenerTest() {
    set_gradient_listener_finder(
        [](const std::vector<Variable>&) -> GradientListener* { return &record(); });
  }
  ~GradientListenerTest() override { set_gradient_listener_finder(nullptr); }

  void expect_heard(const Gradients& results) {
    ASSERT_EQ(record().gradients.size(), results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(record().gradients[i].defined(), results[i].defined());
      if (!results[i].defined()) continue;
      EXPECT_EQ(TensorAccess::id(record().gradients[i].dense()),
                TensorAccess::id(results[i].dense()));
    }
  }
};

TEST_F(GradientListenerTest, HearsOfTheLastLayersFirst) {
  const Variable first(2.f);
  const Variable second(3.f);
  const Variable third(5.f);
  GradientTape tape;
  const Tensor y = exp(exp(first * 0.1f) * second) * third;
  const Gradients results = tape.gradient(y, std::vector{first, second, third});
  EXPECT_EQ(record().order, (std::vector<size_t>{2, 1, 0}));
  expect_heard(results);
}

TEST_F(GradientListenerTest, HearsOfAValueThatIsUsedTwiceOnce) {
  const Variable shared(2.f);
  const Variable other(3.f);
  GradientTape tape;
  const Tensor value = shared;
  const Tensor y = exp(value * other) * value;
  const Gradients results = tape.gradient(y, std::vector{shared, other});
  EXPECT_EQ(record().order.size(), 2u);
  expect_heard(results);
}

TEST_F(GradientListenerTest, HearsOfThoseWithoutGradientToo) {
  const Variable used(2.f);
  const Variable unused(3.f);
  GradientTape tape;
  const Tensor y = used * 2.f;
  const Gradients results = tape.gradient(y, std::vector{unused, used});
  EXPECT_EQ(record().order, (std::vector<size_t>{1, 0}));
  expect_heard(results);
}

}  // namespace
}  // namespace cohort::internal
