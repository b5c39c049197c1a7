#include <cstring>
#include <random>

#include "support/endpoint_meetings.h"
#include "support/members.h"
#include "tensor/memory.h"
#include "tensor/visit.h"

// Every algorithm over every way, for many numbers of members and elements, against a serial loop.

namespace cohort {
namespace {

using internal::Algorithm;

// Small numbers: their sums and products are exact in every dtype.
double value_at(int rank, int64_t i) { return static_cast<double>((rank + i) % 3); }

double combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return a + b;
    case ReduceOp::Min:
      return std::min(a, b);
    case ReduceOp::Max:
      return std::max(a, b);
    case ReduceOp::Product:
      return a * b;
  }
  return 0;
}

// The values that are compared here repeat after so many.
constexpr int64_t kPeriod = 3;

Tensor make_values(DType dtype, const Shape& shape, const std::function<double(int64_t)>& value) {
  const internal::WritableTensor made = internal::allocate_tensor(dtype, shape);
  const int64_t count = shape.num_elements();
  const int64_t given = std::min(kPeriod, count);
  internal::visit_numeric(dtype, [&]<typename T>(T) {
    auto* data = reinterpret_cast<T*>(made.data);
    for (int64_t i = 0; i < given; ++i) {
      if constexpr (std::same_as<T, bool>) {
        data[i] = value(i) != 0;
      } else if constexpr (std::is_arithmetic_v<T>) {
        data[i] = static_cast<T>(value(i));
      } else {
        data[i] = static_cast<T>(static_cast<float>(value(i)));
      }
    }
    for (int64_t i = given; i < count; ++i) data[i] = data[i - kPeriod];
  });
  return made.tensor;
}

// Bools are 0 and 1.
double input(DType dtype, int rank, int64_t i) {
  const double value = value_at(rank, i);
  return dtype == kBool ? static_cast<double>(value != 0) : value;
}

double serial(DType dtype, ReduceOp op, int size, int64_t i) {
  double result = input(dtype, 0, i);
  for (int rank = 1; rank < size; ++rank) result = combined(op, result, input(dtype, rank, i));
  return op == ReduceOp::Mean ? result / size : result;
}

// The first values are the serial ones, and the rest repeats them.
void expect_reduced(const Tensor& result, DType dtype, ReduceOp op, int size, int64_t first = 0) {
  const int64_t compared = std::min(kPeriod, result.size());
  const Tensor expected = make_values(
      result.dtype(), {compared}, [&](int64_t i) { return serial(dtype, op, size, first + i); });
  const auto bytes = [&](int64_t count) {
    return static_cast<size_t>(count * size_of(result.dtype()));
  };
  if (compared == 0) return;
  const std::byte* const found = internal::element_bytes(result);
  const bool begins = std::memcmp(found, internal::element_bytes(expected), bytes(compared)) == 0;
  const bool repeats =
      std::memcmp(found + bytes(compared), found, bytes(result.size() - compared)) == 0;
  ASSERT_TRUE(begins && repeats) << to_string(op) << " of " << result.size() << " "
                                 << to_string(dtype) << " of " << size << " members";
}

bool exists(DType dtype, ReduceOp op) {
  return dtype != kBool || (op != ReduceOp::Sum && op != ReduceOp::Mean);
}

constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min, ReduceOp::Max,
                             ReduceOp::Product};
constexpr DType kDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8,
                             kInt16,   kInt32,    kInt64,   kUInt8,   kBool};

// What one member contributes, and whether it gets the serial reductions.
void reduce_and_check(Communicator& member, DType dtype, std::span<const ReduceOp> ops,
                      int64_t length) {
  const Tensor own =
      make_values(dtype, {length}, [&](int64_t i) { return value_at(member.rank(), i); });
  for (const ReduceOp op : ops) {
    if (exists(dtype, op)) expect_reduced(member.all_reduce(own, op), dtype, op, member.size());
  }
}

std::vector<int64_t> lengths(int size) { return {0, 1, size - 1, 1000, 100000}; }

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

// Over connections between endpoints, as tasks have them: one group for all cases of a way and a
// size. What dtypes and operations do is the same over every transport: here each of them occurs,
// but not every pair.
class OverConnections : public testing::TestWithParam<std::tuple<internal::Way, int>> {
 protected:
  static internal::Way way() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }

  // All members choose it at the same place in the order of their calls.
  static void use(Communicator& member, Algorithm algorithm) {
    internal::CollectiveAccess::group(member).engine().table = {{{SIZE_MAX, algorithm}}};
  }
  static void check_all_reduce(Communicator& member) {
    constexpr ReduceOp kMax[] = {ReduceOp::Max};
    for (const int64_t length : lengths(size())) {
      for (const DType dtype : kDTypes) reduce_and_check(member, dtype, kMax, length);
      reduce_and_check(member, kFloat32, kOps, length);
    }
  }
  // These have one algorithm each.
  static void check_other_calls(Communicator& member);

  EndpointMeetings endpoints_{size(), way()};
  std::vector<Communicator> group_ = make_group(endpoints_.meetings, {});
};

void OverConnections::check_other_calls(Communicator& member) {
  const int last = size() - 1;
  for (const int64_t length : lengths(size())) {
    const Tensor own =
        make_values(kFloat32, {length}, [&](int64_t i) { return value_at(member.rank(), i); });
    const Tensor theirs =
        make_values(kFloat32, {length}, [&](int64_t i) { return value_at(last, i); });
    ASSERT_EQ(member.broadcast(own, last).to_vector<float>(), theirs.to_vector<float>());
    const Tensor reduced = member.reduce(own, ReduceOp::Sum, last);
    if (reduced.defined()) expect_reduced(reduced, kFloat32, ReduceOp::Sum, size());
    ASSERT_EQ(member.all_gather(own).size(), length * size());
    const std::vector<Tensor> parts(static_cast<size_t>(size()), own);
    ASSERT_EQ(member.all_to_all(parts).back().to_vector<float>(), theirs.to_vector<float>());
  }
}

TEST_P(OverConnections, EveryCallGivesTheSerialResult) {
  on_each(group_, [&](Communicator& member) {
    for (const Algorithm algorithm :
         {Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring}) {
      use(member, algorithm);
      check_all_reduce(member);
    }
    check_other_calls(member);
  });
}

std::string name_of_connections(const testing::TestParamInfo<OverConnections::ParamType>& tested) {
  const auto& [way, size] = tested.param;
  const std::string name = way == internal::Way::Grpc ? "Grpc" : "SharedMemoryConnections";
  return name + "Of" + std::to_string(size);
}

INSTANTIATE_TEST_SUITE_P(Members, OverConnections,
                         testing::Combine(testing::Values(internal::Way::SharedMemory,
                                                          internal::Way::Grpc),
                                          testing::Values(2, 3, 4, 5, 6, 7, 8, 9, 13, 16)),
                         name_of_connections);

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
