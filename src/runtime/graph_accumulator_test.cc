#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/queue.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

// Two of three workers make an update: R = 2, N = 3, two tokens to begin with, learning rate 0.5,
// one variable that starts at 10, gradients a = 2, b = 4, c = 6.
class SynchronousReplicas : public ::testing::Test {
 protected:
  static constexpr int64_t kTokensPerUpdate = 3;

  SynchronousReplicas() : building_(graph_.as_default()), session_("") {
    gradient_ = placeholder(kFloat32, {});
    local_step_ = placeholder(kInt64, {});
    initial_tokens_ = placeholder(kInt64, {-1});
    accumulate_ = accumulator_.apply_gradient(gradient_, local_step_);
    token_ = tokens_.dequeue()[0];
    put_tokens_ = tokens_.enqueue_many({initial_tokens_});
    start_ = accumulator_.set_global_step(global_step());
    update_ = build_update();
    session_.run(global_variables_initializer());
    session_.run(start_);
    session_.run(put_tokens_, {{initial_tokens_, Tensor({int64_t{0}, int64_t{0}})}});
  }

  // One round of the chief's loop: the step counts up only when the variable is updated, and tokens
  // are given only then.
  Tensor build_update() {
    const Tensor mean = accumulator_.take_gradient(2);
    const auto after_update = control_dependencies({variable_.assign_sub(mean * 0.5f)});
    const Tensor next = global_step().assign_add(int64_t{1});
    return tokens_.enqueue_many({broadcast_to(next, {kTokensPerUpdate})});
  }

  void apply(float gradient, int64_t local_step) {
    session_.run(accumulate_, {{gradient_, gradient}, {local_step_, local_step}});
  }
  int64_t next_token() { return session_.run(token_).to<int64_t>(); }
  void update() { session_.run(update_); }

  float variable() { return session_.run(variable_.read_value()).to<float>(); }
  int64_t step() { return session_.run(global_step().read_value()).to<int64_t>(); }
  int64_t count() { return session_.run(accumulator_.num_accumulated()).to<int64_t>(); }
  int64_t num_tokens() { return session_.run(tokens_.size()).to<int64_t>(); }

  Graph graph_;
  Graph::Scope building_;
  Variable variable_{10.f, {.name = "v"}};
  ConditionalAccumulator accumulator_{{.shape = {}, .name = "gradients"}};
  FifoQueue tokens_{{.components = {{kInt64, {}}}, .name = "tokens"}};
  Tensor gradient_, local_step_, initial_tokens_;
  Tensor accumulate_, token_, put_tokens_, start_, update_;
  Session session_;
};

TEST_F(SynchronousReplicas, UpdateWithTheFirstTwoAndDropTheThird) {
  EXPECT_EQ(num_tokens(), 2);
  apply(2, 0);
  const int64_t local_a = next_token();
  EXPECT_EQ(local_a, 0);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(variable(), 10.f);

  apply(4, 0);
  EXPECT_EQ(count(), 2);
  update();
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(variable(), 8.5f);
  EXPECT_EQ(step(), 1);
  EXPECT_EQ(num_tokens(), 4);
  const int64_t local_b = next_token();
  EXPECT_EQ(local_b, 0);

  apply(6, 0);
  EXPECT_EQ(count(), 0);
  const int64_t local_c = next_token();
  EXPECT_EQ(local_c, 1);

  apply(2, local_a);
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(next_token(), 1);
  apply(4, local_b);
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(next_token(), 1);
  EXPECT_EQ(num_tokens(), 0);
  EXPECT_EQ(variable(), 8.5f);

  apply(6, local_c);
  apply(2, 1);
  update();
  EXPECT_EQ(variable(), 6.5f);
  EXPECT_EQ(step(), 2);
}

TEST_F(SynchronousReplicas, AChiefThatWaitsForGradientsIsEndedByItsDeadline) {
  apply(2, 0);
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 30 ms",
               session_.run(update_, {}, {.timeout = milliseconds(30)}));
  apply(4, 0);
  update();
  EXPECT_EQ(variable(), 8.5f);
}

TEST(ConditionalAccumulator, IsSharedByNameAndMustBeTheSame) {
  Graph graph;
  auto building = graph.as_default();
  ConditionalAccumulator mine({.shape = {2}, .shared_name = "common"});
  ConditionalAccumulator same({.shape = {2}, .shared_name = "common"});
  ConditionalAccumulator other({.shape = {3}, .shared_name = "common"});
  Session session;
  session.run(mine.apply_gradient(Tensor({1.f, 2.f})));
  EXPECT_EQ(session.run(same.take_gradient(1)).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "'common' already exists for the mean of float32 (2,)",
               session.run(other.num_accumulated()));
}

TEST(ConditionalAccumulator, RefusesWhatDoesNotFit) {
  Graph graph;
  auto building = graph.as_default();
  EXPECT_ERROR(Code::InvalidArgument, "must be one of float16",
               ConditionalAccumulator({.dtype = kInt32}));
  ConditionalAccumulator accumulator({.shape = {2}, .name = "g"});
  EXPECT_ERROR(Code::InvalidArgument, "accumulator 'g' takes float32 (2,), got float64 (2,)",
               accumulator.apply_gradient(Tensor({1., 2.})));
  EXPECT_ERROR(Code::InvalidArgument, "got float32 (3,)", accumulator.apply_gradient(ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "the local step must be integers",
               accumulator.apply_gradient(ones({2}), 1.f));
  EXPECT_ERROR(Code::InvalidArgument, "the number of gradients",
               accumulator.take_gradient(Tensor({1, 2})));
  const Tensor none = accumulator.take_gradient(0);
  Session session;
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 gradient must be taken from 'g'",
               session.run(none));
}

TEST(SparseConditionalAccumulator, AveragesRows) {
  Graph graph;
  auto building = graph.as_default();
  SparseConditionalAccumulator accumulator({.shape = {10, 2}, .name = "rows"});
  const Tensor values = placeholder(kFloat32, {-1, 2});
  const Tensor indices = placeholder(kInt64, {-1});
  const Tensor put = accumulator.apply_gradient({values, indices, {10, 2}});
  const IndexedSlices taken = accumulator.take_gradient(2);
  EXPECT_EQ(taken.values.shape().to_string(), "(None, 2)");
  EXPECT_EQ(taken.dense_shape, (Shape{10, 2}));
  Session session;
  session.run(put, {{values, Tensor({{1.f, 2.f}, {3.f, 4.f}})},
                    {indices, Tensor({int64_t{9}, int64_t{0}})}});
  session.run(put, {{values, Tensor({{5.f, 6.f}})}, {indices, Tensor({int64_t{9}})}});
  const std::vector<Tensor> rows = session.run({taken.indices, taken.values});
  EXPECT_EQ(rows[0].to_vector<int64_t>(), (std::vector<int64_t>{0, 9}));
  EXPECT_EQ(rows[1].to_vector<float>(), (std::vector<float>{3, 4, 3, 4}));
  EXPECT_ERROR(Code::InvalidArgument, "accumulator 'rows' takes float32 (None, 2)",
               accumulator.apply_gradient({ones({1, 3}), Tensor({int64_t{1}}), {10, 3}}));
  EXPECT_ERROR(Code::InvalidArgument, "the accumulator's shape",
               SparseConditionalAccumulator({.shape = {}}));
}

}  // namespace
}  // namespace cohort
