#include "support/conformance_values.h"
#include "support/endpoint_groups.h"

// The algorithms of messages over connections between processes' endpoints, against a serial loop.

namespace cohort {
namespace {

using internal::Algorithm;

// Over connections between endpoints, as tasks have them: one group for all cases of a way and a
// size. What dtypes and operations do is the same over every transport: here each of them occurs,
// but not every pair.
class OverConnections : public testing::TestWithParam<std::tuple<internal::TransportKind, int>> {
 protected:
  static internal::TransportKind kind() { return std::get<0>(GetParam()); }
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

  EndpointGroups endpoints_{size(), kind()};
  std::vector<Communicator> group_ = make_group(endpoints_.groups, {});
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
  const std::string name =
      way == internal::TransportKind::Grpc ? "Grpc" : "SharedMemoryConnections";
  return name + "Of" + std::to_string(size);
}

INSTANTIATE_TEST_SUITE_P(Members, OverConnections,
                         testing::Combine(testing::Values(internal::TransportKind::SharedMemory,
                                                          internal::TransportKind::Grpc),
                                          testing::Values(2, 3, 4, 5, 6, 7, 8, 9, 13, 16)),
                         name_of_connections);

}  // namespace
}  // namespace cohort
