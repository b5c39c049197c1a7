#include "collectives/worker_communicator.h"

#include <gtest/gtest.h>

#include <future>

#include "base/raise.h"
#include "collectives/group_connections.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "transport/in_process.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// Between the forming of a group and its first rendezvous, members have no connections that could
// end.
TEST(WorkerCommunicator, AWorkerThatEndsBeforeTheFirstRendezvousIsNamedSoon) {
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

// A member that starts slowly: it answers a try that lasts until `answers`, and no shorter one.
class SlowStart : public MemberConnections {
 public:
  explicit SlowStart(Deadline answers) : answers_(answers) {}

  void listen(Accept) override {}
  std::shared_ptr<Connection> connect(int rank, Deadline deadline,
                                      const std::function<bool()>&) override {
    ++tries;
    if (deadline < answers_) {
      raise(Code::DeadlineExceeded, "[Test] rank {} did not answer yet", rank);
    }
    auto [ours, theirs] = connect_in_process({.name = "a"}, {.name = "b"});
    other_end_ = std::move(theirs);
    return ours;
  }

  int tries = 0;

 private:
  const Deadline answers_;
  std::shared_ptr<Connection> other_end_;
};

// A try that is cut short leaves a connection half made, and the other members take the end of that
// connection for the loss of a task. So a group of many tasks that start slowly did not form.
TEST(Links, AMemberThatStartsSlowlyHasTheWholeTimeForOneTry) {
  const Deadline deadline = steady_clock::now() + std::chrono::hours(1);
  const auto slow = std::make_shared<SlowStart>(deadline);
  const auto links = Links::open(
      {.peers = {{.name = "a"}, {.name = "b"}}, .hosts = {"", ""}, .connections = slow});
  links->expect(1, deadline);
  EXPECT_TRUE(links->is_connected(1));
  EXPECT_EQ(slow->tries, 1);
}

}  // namespace
}  // namespace cohort::internal
