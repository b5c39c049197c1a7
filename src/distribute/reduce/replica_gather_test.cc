// Replicas call all_gather inside run().

#include "support/expect_error.h"
#include "support/ways_of_reducing.h"

namespace cohort {
namespace {

using AllGather = EveryWay;
INSTANTIATE_TEST_SUITE_P(Ways, AllGather, kWays, name_of_way);

TEST_P(AllGather, PutsValuesOneAfterTheOther) {
  const auto vectors = two_.run([] {
    return all_gather(replica_id() == 0 ? Tensor({7}) : Tensor({8, 9}), 0);
  });
  EXPECT_EQ(numbers(vectors), (Numbers{{7, 8, 9}, {7, 8, 9}}));
  EXPECT_EQ(vectors[1].device(), canonical_device("CPU:1"));
  const auto planes = three_.run([] {
    const std::vector<int64_t> sizes{1, 3, 2};
    return all_gather(zeros({2, sizes[replica_id()], 4}), 1);
  });
  EXPECT_EQ(planes[2].shape(), (Shape{2, 6, 4}));
}

TEST_P(AllGather, TakesStructures) {
  const auto both = two_.run([] {
    const auto own = static_cast<float>(replica_id());
    return all_gather(std::pair{Tensor({own}), Tensor({own + 10, own + 20})}, 0);
  });
  EXPECT_EQ(both[0].first.to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(both[1].second.to_vector<float>(), (std::vector<float>{10, 20, 11, 21}));
}

TEST_P(AllGather, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(Code::InvalidArgument, "shapes beside axis 0 differ", three_.run([] {
    const std::vector<int64_t> sizes{1, 3, 2};
    return all_gather(zeros({2, sizes[replica_id()], 4}), 0);
  }));
  EXPECT_ERROR(Code::InvalidArgument, "scalar",
               two_.run([] { return all_gather(Tensor(1.f), 0); }));
  EXPECT_ERROR(Code::InvalidArgument, "axis 1",
               two_.run([] { return all_gather(Tensor({1.f}), 1); }));
  EXPECT_ERROR(Code::InvalidArgument, "axis -1",
               two_.run([] { return all_gather(Tensor({1.f}), -1); }));
  EXPECT_ERROR(Code::Unimplemented, "rows of", two_.run([] {
    return all_gather(IndexedSlices{Tensor({{5.f}}), Tensor({int64_t{1}}), {2, 1}}, 0);
  }));
  EXPECT_ERROR(Code::FailedPrecondition, "replica 0 calls all_gather(axis 0", two_.run([] {
    return all_gather(zeros({2, 2}), replica_id());
  }));
}

TEST_P(AllGather, HasTheOwnPartOfTheSumAsItsGradient) {
  const auto gradient = two_.run([] {
    const Tensor own = replica_id() == 0 ? Tensor({7.f}) : Tensor({8.f, 9.f});
    GradientTape tape;
    tape.watch(own);
    const Tensor loss = sum(all_gather(own, 0)) * static_cast<float>(replica_id() + 1);
    return tape.gradient(loss, own).dense();
  });
  EXPECT_EQ(numbers(gradient), (Numbers{{3}, {3, 3}}));
}

TEST_P(AllGather, HasGradientsAlongOtherAxes) {
  const auto gradient = two_.run([] {
    const Tensor own = replica_id() == 0 ? ones({2, 1}) : ones({2, 2});
    GradientTape tape;
    tape.watch(own);
    const Tensor weights = reshape(range(6, kFloat32), {2, 3});
    return tape.gradient(sum(all_gather(own, 1) * weights), own).dense();
  });
  EXPECT_EQ(numbers(gradient), (Numbers{{0, 6}, {2, 4, 8, 10}}));
}

}  // namespace
}  // namespace cohort
