// Updates that are asked for again are made once.

#include "coordinator/once.h"

#include <gtest/gtest.h>

#include <future>

#include "cluster/remote_session.h"
#include "coordinator/graph_nodes.h"
#include "support/coordinated_cluster.h"

namespace cohort::internal {
namespace {

// An accumulator on a parameter server, and what is done with it there.
class Gathering : public testing::Test {
 protected:
  test::LocalCluster cluster_{1, 1};
  const DeviceName home_ = DeviceName::parse("/job:ps/replica:0/task:0/device:CPU:0");
  const std::shared_ptr<GraphImpl> graph_ = std::make_shared<GraphImpl>();
  const Endpoint claim_ = add_placeholder(*graph_, "claim", {kInt64, Shape{3}}, home_);
  const Endpoint number_ = add_placeholder(*graph_, "number", {kInt64, Shape{}}, home_);
  const Endpoint gradient_ = add_placeholder(*graph_, "gradient", {kFloat32, Shape{}}, home_);
  const Attrs kind_{{"dtype", kFloat32}, {"shape", Shape{}}};
  const Endpoint handle_{add_node(*graph_, "handle", "AccumulatorHandle", {},
                                  {{"dtype", kFloat32},
                                   {"shape", Shape{}},
                                   {"mean", true},
                                   {"sparse", false},
                                   {"container", std::string("here")},
                                   {"shared_name", std::string("sum")}},
                                  home_)};
  const std::shared_ptr<RemoteSession> session_ = std::make_shared<RemoteSession>(
      graph_, cluster_.spec().task_address("ps", 0), SessionOptions());
  int take_ = 0, apply_ = 0;

  Gathering() {
    const Node take{.name = "take",
                    .op = &find_op("AccumulatorTake"),
                    .attrs = kind_,
                    .inputs = {handle_, number_},
                    .controls = {},
                    .device = home_,
                    .outputs = {{kFloat32, Shape{}}}};
    const Endpoint taken{graph_->add(once(take, *graph_, claim_, 0))};
    Attrs named = kind_;
    named.set("accumulator", std::string("sum"));
    const Endpoint applied{add_node(*graph_, "apply", "AccumulatorApply",
                                    {handle_, gradient_, number_}, named, home_)};
    session_->open();
    take_ = session_->make_callable({graph_->symbol(claim_), graph_->symbol(number_)},
                                    {graph_->symbol(taken)});
    apply_ = session_->make_callable({graph_->symbol(gradient_), graph_->symbol(number_)},
                                     {graph_->symbol(applied)});
  }

  float take(int64_t call, int64_t all_done_below = 1) const {
    const Tensor claim({int64_t{1}, call, all_done_below});
    return session_->run_callable(take_, {claim, Tensor(int64_t{1})}, {}).at(0).to<float>();
  }
  void push(float gradient) const {
    session_->run_callable(apply_, {Tensor(gradient), Tensor(int64_t{9})}, {});
  }
};

TEST_F(Gathering, IsTakenOnceByACallThatIsRepeated) {
  push(2);
  EXPECT_EQ(take(1), 2);
  EXPECT_EQ(take(1), 2);  // there is nothing more that could be taken
  push(5);
  EXPECT_EQ(take(1), 2);
  EXPECT_EQ(take(2, 2), 5);
  EXPECT_ERROR(Code::Cancelled, "is over", take(1));
}

TEST_F(Gathering, IsWaitedForByTheRepetitionOfACallThatIsAtIt) {
  auto first = std::async(std::launch::async, [&] { return take(1); });
  auto again = std::async(std::launch::async, [&] { return take(1); });
  push(3);
  EXPECT_EQ(first.get(), 3);
  EXPECT_EQ(again.get(), 3);
}

}  // namespace
}  // namespace cohort::internal
