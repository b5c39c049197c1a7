#include <dlfcn.h>

#include <cstdlib>

#include "collectives/nccl_library.h"
#include "collectives/worker_communicator.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/members.h"

// NCCL's calls, made on host memory by a stand-in for its C interface.

namespace cohort {
namespace {

const internal::NcclLibrary& stand_in() {
  setenv("COHORT_NCCL_LIBRARY", COHORT_NCCL_STAND_IN, 1);
  return *internal::nccl_library();
}

int ask_stand_in(const char* name) {
  void* const handle = dlopen(COHORT_NCCL_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<int (*)()>(dlsym(handle, name))();
}

std::vector<Communicator> make_nccl_group(int size) {
  return make_group(size, {.engine = internal::nccl_engine(stand_in(), internal::NcclMemory::Any)});
}

Tensor vector_of(float value, size_t count = 3) {
  return Tensor::from(std::vector<float>(count, value));
}

TEST(NcclEngine, ReducesWithNccl) {
  std::vector<Communicator> group = make_nccl_group(4);
  EXPECT_EQ(group[0].kind(), "nccl");
  const int before = ask_stand_in("stand_in_all_reduces");
  on_each(group, [](Communicator& member) {
    const auto own = static_cast<float>(member.rank() + 1);
    EXPECT_EQ(member.all_reduce(vector_of(own)).to_vector<float>(), std::vector<float>(3, 10.f));
    EXPECT_EQ(member.all_reduce(vector_of(own), ReduceOp::Mean).at<float>({2}), 2.5f);
    EXPECT_EQ(member.all_reduce(vector_of(own), ReduceOp::Max).at<float>({0}), 4);
    EXPECT_EQ(member.all_reduce(vector_of(own), ReduceOp::Min).at<float>({0}), 1);
    EXPECT_EQ(member.all_reduce(vector_of(own), ReduceOp::Product).at<float>({0}), 24);
    EXPECT_EQ(member.all_reduce(Tensor({int64_t{1}, int64_t{2}})).at<int64_t>({1}), 8);
    EXPECT_EQ(member.all_reduce(vector_of(own, 0)).size(), 0);
  });
  EXPECT_EQ(ask_stand_in("stand_in_all_reduces") - before, 4 * 7);
}

TEST(NcclEngine, HasTheOtherCalls) {
  std::vector<Communicator> group = make_nccl_group(3);
  on_each(group, [](Communicator& member) {
    const auto own = static_cast<float>(member.rank());
    EXPECT_EQ(member.broadcast(vector_of(own), 2).at<float>({1}), 2);
    const Tensor reduced = member.reduce(vector_of(own), ReduceOp::Sum, 1);
    ASSERT_EQ(reduced.defined(), member.rank() == 1);
    if (reduced.defined()) {
      EXPECT_EQ(reduced.at<float>({2}), 3);
    }
    EXPECT_EQ(
        member.all_gather(vector_of(own, static_cast<size_t>(member.rank()))).to_vector<float>(),
        (std::vector<float>{1, 2, 2}));
    const Tensor parts = Tensor({0.f, 1.f, 2.f});
    EXPECT_EQ(member.reduce_scatter(parts).to_vector<float>(), std::vector<float>{3 * own});
    Pack pack = member.make_pack(kFloat32, {{2}});
    pack.write(0, Tensor({own, 1.f}));
    member.all_reduce(pack);
    EXPECT_EQ(pack.read(0).to_vector<float>(), (std::vector<float>{3, 3}));
    Communicator part = member.split(member.rank() == 1 ? 1 : 0);
    EXPECT_EQ(part.all_reduce(vector_of(own)).at<float>({0}), member.rank() == 1 ? 1 : 2);
  });
}

TEST(NcclEngine, RefusesWhatNcclDoesNotHave) {
  std::vector<Communicator> group = make_nccl_group(2);
  const auto statuses = run_members(2, [&](int rank) {
    group[static_cast<size_t>(rank)].all_reduce(Tensor({1, 2}), ReduceOp::Mean);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
  }
}

TEST(NcclEngine, DifferencesAreAnErrorBeforeNcclIsCalled) {
  std::vector<Communicator> group = make_nccl_group(3);
  const auto statuses = run_members(3, [&](int rank) {
    group[static_cast<size_t>(rank)].all_reduce(vector_of(1, rank == 1 ? 4 : 3));
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("float32 (4,)"), std::string::npos) << status.message;
  }
}

TEST(NcclEngine, WhoIsLostIsNamedAndNothingIsLeft) {
  const int before = ask_stand_in("stand_in_live_comms");
  {
    std::vector<Communicator> group = make_nccl_group(3);
    const auto statuses = run_members(3, [&](int rank) {
      Communicator& member = group[static_cast<size_t>(rank)];
      if (rank == 2) return member.close();
      for (;;) member.all_reduce(vector_of(1));
    });
    for (const int rank : {0, 1}) {
      const Status& status = statuses[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code, Code::Unavailable) << status.to_string();
      EXPECT_NE(status.message.find("rank 2 (task 2)"), std::string::npos) << status.message;
    }
  }
  EXPECT_EQ(ask_stand_in("stand_in_live_comms"), before);
}

TEST(NcclEngine, AllMembersMustWantIt) {
  const TaskList addresses = test::free_addresses(2);
  const internal::EngineChoice nccl = internal::nccl_engine(stand_in());
  const auto statuses = run_members(2, [&](int rank) {
    internal::WorkerCommunicator::Options options;
    if (rank == 1) options.engine = nccl;
    internal::WorkerCommunicator(
        {.workers = {{"task 0", addresses[0]}, {"task 1", addresses[1]}}, .self = rank}, options);
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part : {"task 0 (", "task 1 (", "the engine '' for collectives",
                                   "the other 'nccl'; choose one for all"}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << status.to_string();
    }
  }
}

}  // namespace
}  // namespace cohort
