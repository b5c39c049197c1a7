#include "base/worker_outcomes.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

TEST(WorkerOutcomes, TheFirstFailureIsThrownOnAllWorkersAndNamesItsWorker) {
  const auto thrown = [](Code code, const char* message) {
    return capture_exception([&] { throw Error(code, message); });
  };
  const auto full = thrown(Code::ResourceExhausted, "[Disk] is full");
  const auto away = thrown(Code::Unavailable, "[Disk] is away");
  const auto good = capture_exception([] {});
  const auto throw_first = [](const std::vector<std::exception_ptr>& all) {
    std::vector<std::string> outcomes;
    for (const std::exception_ptr& each : all) outcomes.push_back(outcome_text(each));
    throw_first_failure("Save", all[0], outcomes);
  };
  throw_first({good});
  throw_first({good, good});
  EXPECT_ERROR(Code::ResourceExhausted, "[Save] the call failed on worker 1",
               throw_first({good, full, away}));
  EXPECT_ERROR(Code::FailedPrecondition, "is away", throw_first({away, good}));
  EXPECT_ERROR(Code::Unavailable, "[Disk] is away", throw_first({away}));
  const auto other = capture_exception([] { throw 7; });
  EXPECT_THROW(throw_first({other}), int);
  EXPECT_THROW(throw_first({other, good}), int);
  EXPECT_ERROR(Code::Unknown, "failed on worker 1", throw_first({good, other}));
}

TEST(WorkerOutcomes, AFailureOfOneWorkerAloneIsNotALoss) {
  throw_local_failure({});
  EXPECT_ERROR(Code::FailedPrecondition, "is away",
               throw_local_failure({.code = Code::Unavailable, .message = "is away"}));
  EXPECT_ERROR(Code::DataLoss, "is bad",
               throw_local_failure({.code = Code::DataLoss, .message = "is bad"}));
}

}  // namespace
}  // namespace cohort::internal
