#include <random>

#include "support/conformance_values.h"

// Every algorithm runs inside one process, for many numbers of members and elements. A serial loop
// computes what is expected.

namespace cohort {
namespace {

using internal::Algorithm;

class Conformance : public testing::TestWithParam<std::tuple<GroupPlan, int>> {
 protected:
  static const GroupPlan& plan() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }

  std::vector<Communicator> group_ = make_group(size(), plan());
};

TEST_P(Conformance, AllReduceIsTheSerialReduction) {
  on_each(group_, [&](Communicator& member) {
    for (const int64_t length : lengths(size())) {
      for (const DType dtype : kDTypes) reduce_and_check(member, dtype, kOps, length);
    }
  });
}

TEST_P(Conformance, ResultsHaveTheSameBitsEverywhereAndEachTime) {
  const int64_t length = 4321;
  std::vector<std::vector<float>> results(2 * static_cast<size_t>(size()));
  on_each(group_, [&](Communicator& member) {
    std::mt19937 random(static_cast<unsigned>(member.rank()));
    std::normal_distribution<float> normal;
    std::vector<float> own(static_cast<size_t>(length));
    for (float& value : own) value = normal(random);
    const Tensor values = Tensor::from(own);
    for (int time = 0; time < 2; ++time) {
      results[static_cast<size_t>(2 * member.rank() + time)] =
          member.all_reduce(values).to_vector<float>();
    }
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(Conformance, PacksAreReducedInPlace) {
  on_each(group_, [&](Communicator& member) {
    for (const DType dtype : {kFloat32, kBFloat16, kInt64}) {
      const std::vector<Shape> shapes = {{3, 5}, {0}, {}, {size() * 100 + 1}};
      Pack pack = member.make_pack(dtype, shapes);
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max}) {
        for (size_t k = 0; k < shapes.size(); ++k) {
          pack.write(k, make_values(dtype, shapes[k],
                                    [&](int64_t i) { return value_at(member.rank(), i); }));
        }
        member.all_reduce(pack, op);
        for (size_t k = 0; k < shapes.size(); ++k) {
          expect_reduced(pack.read(k), dtype, op, size());
        }
      }
    }
  });
}

TEST_P(Conformance, BroadcastAndReduceHaveARoot) {
  on_each(group_, [&](Communicator& member) {
    for (const int64_t length : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{300000}}) {
      const int root = static_cast<int>(length) % size();
      const Tensor own =
          make_values(kFloat32, {length}, [&](int64_t i) { return value_at(member.rank(), i); });
      const Tensor sent = member.broadcast(own, root);
      EXPECT_EQ(sent.shape(), own.shape());
      const auto values = sent.to_vector<float>();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<float>(value_at(root, static_cast<int64_t>(i))));
      }
      const Tensor reduced = member.reduce(own, ReduceOp::Sum, root);
      ASSERT_EQ(reduced.defined(), member.rank() == root);
      if (reduced.defined()) expect_reduced(reduced, kFloat32, ReduceOp::Sum, size());
    }
  });
}

TEST_P(Conformance, AllGatherJoinsRowsOfAnyNumber) {
  on_each(group_, [&](Communicator& member) {
    // Rank r has r * scale rows of two.
    for (const int64_t scale : {int64_t{0}, int64_t{1}, int64_t{5000}}) {
      const int64_t rows = member.rank() * scale;
      const Tensor own = make_values(kInt32, {rows, 2}, [&](int64_t) { return member.rank(); });
      const Tensor all = member.all_gather(own);
      EXPECT_EQ(all.shape(), (Shape{scale * size() * (size() - 1) / 2, 2}));
      std::vector<int32_t> expected;
      for (int rank = 0; rank < size(); ++rank) {
        expected.insert(expected.end(), static_cast<size_t>(2 * rank * scale), rank);
      }
      ASSERT_EQ(all.to_vector<int32_t>(), expected);
    }
  });
}

TEST_P(Conformance, ReduceScatterGivesEachItsPart) {
  on_each(group_, [&](Communicator& member) {
    for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{3000}}) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean}) {
        const Tensor own = make_values(kInt16, {rows * size(), 3},
                                       [&](int64_t i) { return value_at(member.rank(), i); });
        const Tensor part = member.reduce_scatter(own, op);
        EXPECT_EQ(part.shape(), (Shape{rows, 3}));
        expect_reduced(part, kInt16, op, size(), member.rank() * rows * 3);
      }
    }
  });
}

TEST_P(Conformance, AllToAllTakesAnythingAndBarriersWait) {
  std::atomic<int> came = 0;
  on_each(group_, [&](Communicator& member) {
    std::vector<Tensor> parts;
    for (int to = 0; to < size(); ++to) {
      parts.push_back(make_values(kFloat64, {to}, [&](int64_t) { return member.rank(); }));
    }
    const std::vector<Tensor> got = member.all_to_all(parts);
    for (int from = 0; from < size(); ++from) {
      const auto& part = got[static_cast<size_t>(from)];
      EXPECT_EQ(part.to_vector<double>(),
                std::vector<double>(static_cast<size_t>(member.rank()), from));
    }
    ++came;
    member.barrier();
    EXPECT_EQ(came, size());
  });
}

std::vector<GroupPlan> plans() {
  return {{.name = "Doubling", .algorithm = Algorithm::Doubling},
          {.name = "HalvingDoubling", .algorithm = Algorithm::HalvingDoubling},
          {.name = "Ring", .algorithm = Algorithm::Ring},
          {.name = "Everything", .share_memory = true, .algorithm = Algorithm::Everything},
          {.name = "Slices", .share_memory = true, .algorithm = Algorithm::Slices},
          {.name = "TwoLevel", .members_per_host = 2}};
}

INSTANTIATE_TEST_SUITE_P(Members, Conformance,
                         testing::Combine(testing::ValuesIn(plans()),
                                          testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name + "Of" +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(ManyMembers, SixtyFourThreadsReduceTogether) {
  for (const bool share : {false, true}) {
    std::vector<Communicator> group = make_group(64, {.share_memory = share});
    on_each(group, [](Communicator& member) {
      for (const int64_t length : {int64_t{1}, int64_t{1000}, int64_t{10000}}) {
        const Tensor own =
            make_values(kFloat32, {length}, [&](int64_t i) { return value_at(member.rank(), i); });
        expect_reduced(member.all_reduce(own), kFloat32, ReduceOp::Sum, 64);
      }
    });
  }
}

}  // namespace
}  // namespace cohort
