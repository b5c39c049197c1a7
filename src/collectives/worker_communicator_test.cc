#include <gtest/gtest.h>

#include <future>

#include "base/raise.h"
#include "collectives/access.h"
#include "collectives/group_connections.h"
#include "support/expect_error.h"
#include "support/free_ports.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// Between the forming of a group and its first meeting, members have no connections that could end.
TEST(WorkerCommunicator, AWorkerThatEndsBeforeTheFirstMeetingIsNamedSoon) {
  for (const int ends : {0, 1}) {
    const TaskList addresses = test::free_addresses(2);
    const auto list = [&](int self) {
      return WorkerList{.workers = {{"task 0", addresses[0]}, {"task 1", addresses[1]}},
                        .self = self};
    };
    const Membership::Options start{.timeout = std::chrono::hours(1)};
    auto ended = std::async(std::launch::async, [&] { Membership(list(ends), start); });
    const Status status =
        capture_status([&] { WorkerCommunicator(list(1 - ends), {.start = start}); });
    ended.get();
    EXPECT_EQ(status.code, Code::Unavailable) << status.to_string();
    const std::string name = "rank " + std::to_string(ends) + " (task " + std::to_string(ends);
    EXPECT_NE(status.message.find(name), std::string::npos) << status.to_string();
  }
}

// A member that does not listen. It is tried again for as long as it is wanted.
class Silence : public MemberConnections {
 public:
  void listen(Accept) override {}
  std::shared_ptr<Connection> connect(int rank, Deadline deadline,
                                      const std::function<bool()>& is_wanted) override {
    while (is_wanted() && steady_clock::now() < deadline) during_try();
    raise(Code::Unavailable, "[Test] rank {} is silent", rank);
  }

  std::function<void()> during_try;
};

TEST(Links, AMemberThatIsLostDuringAConnectIsNotAwaited) {
  const auto silence = std::make_shared<Silence>();
  const auto links = Links::open(
      {.peers = {{.name = "a"}, {.name = "b"}}, .hosts = {"", ""}, .connections = silence});
  silence->during_try = [&] { links->lost(1, {.code = Code::Aborted, .message = "b is gone"}); };
  EXPECT_ERROR(Code::Aborted, "b is gone",
               links->expect(1, steady_clock::now() + std::chrono::hours(1)));
}

}  // namespace
}  // namespace cohort::internal
