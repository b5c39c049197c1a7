#include "fashion_mnist.h"

#include <gtest/gtest.h>

namespace fashion {
namespace {

TEST(Comparison, SaysHowMuchFasterTheReplicasAre) {
  EXPECT_EQ(describe({.all = {180, 200, 190}, .one = {100, 95, 105}}, 2),
            "2 replicas are 1.90 times as fast as one: 190 examples per second over 100.");
}

TEST(Comparison, SaysNothingOfSpeedOnABusyMachine) {
  const std::string text = describe({.all = {60, 200, 110}, .one = {100, 95, 105}}, 2);
  EXPECT_EQ(text, "The machine was too busy to tell whether 2 replicas are faster than one.");
}

}  // namespace
}  // namespace fashion
