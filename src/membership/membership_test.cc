#include "membership/membership.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "base/text.h"
#include "rpc/dialer.h"
#include "rpc/grpc_endpoint.h"
#include "rpc/listener.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "topology/address.h"

// Workers that no release of ours would be: the tests invent their handshakes.

namespace cohort::internal {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

WorkerList two_workers(int self) {
  static const TaskList addresses = test::free_addresses(2);
  return {.workers = {{"/job:worker/replica:0/task:0", addresses[0]},
                      {"/job:worker/replica:0/task:1", addresses[1]}},
          .self = self,
          .is_chief = self == 0,
          .spans_hosts = false,
          .cluster = "two workers"};
}

// What the leader throws when that process connects to it, and what the process is told.
struct Outcome {
  Status leader = {};
  Status visitor = {};
};

// The connections of a process, which waits on them for a problem. The leader may find the process,
// or the process the leader.
class ProblemListener {
 public:
  void start(const std::shared_ptr<Connection>& connection) {
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(connection);
    }
    connection->start({.received = [this](const Message& message) { received(message); },
                       .ended = [](const Status&) {}});
  }
  Status problem() {
    auto answer = told_.get_future();
    return answer.wait_for(seconds(2)) == std::future_status::ready ? answer.get() : Status{};
  }

 private:
  void received(const Message& message) {
    MessageReader reader(message, "an answer");
    const auto answer = decode_rest<BootstrapMessage>(reader);
    if (answer.kind != BootstrapMessage::Kind::Problem) return;
    if (!is_told_.exchange(true)) told_.set_value(answer.status);
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> open_;  // guarded by mutex_
  std::promise<Status> told_;
  std::atomic<bool> is_told_ = false;
};

Outcome connect_to_leader(Peer self) {
  const WorkerList workers = two_workers(0);
  auto leading = std::async(std::launch::async, [&] {
    // Longer than a test may take, so only the other process can end the wait.
    return capture_status([&] { Membership(workers, {.timeout = std::chrono::hours(1)}); });
  });
  self.name = workers.workers[1].name;
  self.address = workers.workers[1].address;
  ProblemListener listener;
  const auto endpoint =
      make_endpoint({.self = self}, [&](const auto& connection) { listener.start(connection); });
  (void)capture_status([&] {
    listener.start(endpoint->connect(workers.workers[0].address, steady_clock::now() + seconds(2)));
  });
  Outcome outcome{.leader = leading.get(), .visitor = listener.problem()};
  endpoint->stop();
  return outcome;
}

void expect_named(const Outcome& outcome, const std::vector<std::string>& parts) {
  for (const Status& status : {outcome.leader, outcome.visitor}) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const std::string& part : parts) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  }
}

TEST(Membership, NamesAWorkerOfAnotherBuildOnBoth) {
  const Member other{
      .id = 1, .workers = 2, .replicas = 1, .process = "process 1 on another machine"};
  const Outcome outcome =
      connect_to_leader({.incarnation = 7, .build = "0.0.0", .settings = encode_settings(other)});
  expect_named(outcome, {"different builds of the library", "0.0.0", COHORT_VERSION, "task:0",
                         "task:1", "process 1 on another machine"});
}

// A build of the same version, before its protocol or ours was changed.
TEST(Membership, NamesTheProtocolsOfBuildsOfOneVersion) {
  expect_named(
      connect_to_leader(
          {.incarnation = 7, .build = COHORT_VERSION, .settings = "\x4dwhatever follows"}),
      {"different builds of the library", "join by protocols 2 and 77", "task:0", "task:1"});
}

TEST(Membership, NamesAWorkerWhoseHandshakeHasAnotherProtocol) {
  expect_named(
      connect_to_leader({.incarnation = 7, .build = "0.0.0", .settings = "\x4dwhatever follows"}),
      {"different builds of the library", "0.0.0", COHORT_VERSION, "task:0", "task:1"});
}

// Each side's endpoint refuses the other side's, before a Membership sees it.
TEST(Membership, NamesAWorkerWhoseConnectionsHaveAnotherVersionOnBoth) {
  const WorkerList workers = two_workers(0);
  const WorkerList::Worker& second = workers.workers[1];
  const Handshake self{
      .protocol = kProtocolVersion + 1,
      .peer = {.name = second.name, .incarnation = 7, .address = second.address, .build = "0.0.0"}};
  auto leading = std::async(std::launch::async, [&] {
    return capture_status([&] { Membership(workers, {.timeout = std::chrono::hours(1)}); });
  });
  Listener listener({.host = "127.0.0.1", .port = parse_address(second.address).port});
  Dialer dialer(listener.queue_thread(), self, {});
  Outcome outcome;
  outcome.visitor = capture_status(
      [&] { (void)dialer.dial(workers.workers[0].address, steady_clock::now() + seconds(10)); });
  // Until now the leader could not connect to the other worker, which is what tells it.
  EXPECT_EQ(leading.wait_for(seconds(0)), std::future_status::timeout);
  listener.start(self, {.accept = [](const auto&) { ADD_FAILURE() << "it was accepted"; }});
  outcome.leader = leading.get();
  expect_named(outcome, {fmt::format("version {}", kProtocolVersion),
                         fmt::format("version {}", kProtocolVersion + 1), "0.0.0", COHORT_VERSION,
                         "task:0", "task:1", "run the same release"});
}

// Workers as threads, of which one gives up and is started again before the other one comes.
TEST(Membership, AWorkerMayBeStartedAgainBeforeTheGroupIsFormed) {
  const auto join = [](int id, seconds timeout) {
    return std::async(std::launch::async, [id, timeout] {
      return std::make_unique<Membership>(two_workers(id), Membership::Options{.timeout = timeout});
    });
  };
  EXPECT_THROW(join(1, seconds(1)).get(), Error);
  auto second = join(1, seconds(20));
  auto first = join(0, seconds(20));
  const auto leader = first.get();
  const auto follower = second.get();
  const Group& one = leader->group();
  const Group& other = follower->group();
  EXPECT_EQ(one.generation, 1u);
  EXPECT_EQ(other.generation, 1u);
  EXPECT_EQ(one.rank, 0);
  EXPECT_EQ(other.rank, 1);
  ASSERT_EQ(one.size(), 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(one.peers[rank].incarnation, other.peers[rank].incarnation);
  }
  EXPECT_EQ(one.hosts[0], one.hosts[1]);
  EXPECT_EQ(leader->workers_on_host(), 2u);
}

// What two members throw that meet under other conditions than their group was formed with. Each
// error names both.
TEST(Membership, AConnectionToAnotherTaskOrProcessNamesBoth) {
  const PendingConnections at_a;
  const PendingConnections at_b;
  const std::shared_ptr<Endpoint> a = make_endpoint(
      {.self = {.name = "a", .incarnation = 1, .address = "127.0.0.1:0"}}, at_a.accept());
  const std::shared_ptr<Endpoint> b = make_endpoint(
      {.self = {.name = "b", .incarnation = 2, .address = "127.0.0.1:0"}}, at_b.accept());
  const auto connect = [&](const Peer& wanted) {
    const PendingConnections pending;
    Group group{.peers = {a->self(), wanted}, .hosts = {"", ""}};
    pending.open(a, group);
    (void)group.connections->connect(1, steady_clock::now() + seconds(10));
  };
  const std::string& address = b->self().address;
  EXPECT_ERROR(Code::FailedPrecondition,
               "a expected c at " + address + ", found b; give each task an address of its own",
               connect({.name = "c", .address = address}));
  EXPECT_ERROR(
      Code::Unavailable,
      "b at " + address +
          " has been started again since the group of a began, with incarnation "
          "0000000000000002 instead of 0000000000000063; all members must form a new group",
      connect({.name = "b", .incarnation = 99, .address = address}));
  a->stop();
  b->stop();
}

// The reason with which `b` closes the connection that `a` opens, if these are its members.
std::string refusal_by(const std::vector<Peer>& members) {
  const PendingConnections pending;
  const std::shared_ptr<Endpoint> b =
      make_endpoint({.self = {.name = "b", .address = "127.0.0.1:0"}}, pending.accept());
  const std::shared_ptr<Endpoint> a = make_endpoint({.self = {.name = "a", .incarnation = 1}});
  Group group{.peers = members, .hosts = std::vector<std::string>(members.size())};
  pending.open(b, group);
  group.connections->listen([](int, const auto&) { ADD_FAILURE() << "the connection was taken"; });
  const auto deadline = steady_clock::now() + seconds(10);
  const auto opened = a->connect(b->self().address, deadline, 1);
  std::promise<Status> refused;
  auto why = refused.get_future();
  opened->start({.received = [](const Message&) {},
                 .ended = [&](const Status& status) { refused.set_value(status); }});
  opened->deliver_until([&] { return why.wait_for(seconds(0)) == std::future_status::ready; },
                        deadline);
  a->stop();
  b->stop();
  return why.get().message;
}

TEST(Membership, AConnectionThatIsRefusedLearnsTheNamesOfBoth) {
  EXPECT_EQ(refusal_by({{.name = "b"}, {.name = "c"}}),
            "[Collective] a connects to b and is not a member of its group, b, c; start all tasks "
            "with the same cluster");
  EXPECT_EQ(refusal_by({{.name = "b"}, {.name = "a", .incarnation = 99, .address = "h:1"}}),
            "[Collective] a at h:1 has been started again since the group of b began, with "
            "incarnation 0000000000000001 instead of 0000000000000063; all members must form a new "
            "group");
}

// A connection of another generation is closed with the reason.
TEST(Membership, AConnectionOfAnotherGenerationIsRefused) {
  const PendingConnections pending;
  const std::shared_ptr<Endpoint> listening =
      make_endpoint({.self = {.name = "a", .address = "127.0.0.1:0"}}, pending.accept());
  const std::shared_ptr<Endpoint> other = make_endpoint({.self = {.name = "b"}});
  Group group{.generation = 5, .peers = {{.name = "a"}, {.name = "b"}}, .hosts = {"", ""}};
  pending.open(listening, group);
  std::promise<int> accepted;
  group.connections->listen([&](int rank, const auto&) { accepted.set_value(rank); });
  const auto deadline = steady_clock::now() + seconds(10);
  const auto connect = [&](uint64_t generation) {
    return other->connect(listening->self().address, deadline, generation);
  };
  std::promise<Status> refused;
  const auto wrong = connect(4);
  wrong->start({.received = [](const Message&) {},
                .ended = [&](const Status& why) { refused.set_value(why); }});
  const auto ended = [&] {
    auto why = refused.get_future();
    wrong->deliver_until([&] { return why.wait_for(seconds(0)) == std::future_status::ready; },
                         deadline);
    return why.get();
  };
  EXPECT_NE(ended().message.find(
                "b connects for generation 4 of the group, a is in generation 5; the task of the "
                "earlier generation must join again"),
            std::string::npos);
  const auto right = connect(5);
  EXPECT_EQ(accepted.get_future().get(), 1);
  other->stop();
  listening->stop();
}

// ---- What strangers cause in the log

size_t lines_with(const std::string& part, const std::string& log) {
  size_t count = 0;
  for (const std::string_view line : split(log, '\n')) {
    count += line.find(part) != std::string_view::npos ? 1 : 0;
  }
  return count;
}

// Of a process that is a worker by its settings, and has no place in the list of workers.
Peer stranger(const std::string& settings) {
  return {.name = "a stranger", .incarnation = 7, .build = COHORT_VERSION, .settings = settings};
}

TEST(Membership, WritesOneLineForManyMalformedMessages) {
  const WorkerList workers = two_workers(0);
  testing::internal::CaptureStderr();
  auto leading = std::async(std::launch::async, [&] {
    return capture_status([&] { Membership(workers, {.timeout = std::chrono::hours(1)}); });
  });
  const auto endpoint = make_endpoint(
      {.self = stranger(encode_settings({.id = 1, .workers = 2, .process = "a process"}))});
  const auto connection =
      endpoint->connect(workers.workers[0].address, steady_clock::now() + seconds(10));
  connection->start({.received = [](const Message&) {}, .ended = [](const Status&) {}});
  for (int i = 0; i < 100; ++i) connection->send({.header = std::string(1 + size_t(i), '\xff')});
  // After these messages, and the end of the leader.
  Message problem;
  MessageWriter(problem, "a stranger")(
      BootstrapMessage{.status = {.code = Code::Aborted, .message = "enough"}});
  connection->send(std::move(problem));
  const Status status = leading.get();
  endpoint->stop();
  EXPECT_EQ(status.code, Code::Aborted) << status;
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with("a message between workers", log), 1u) << log;
}

TEST(Membership, WritesOneLineForManyProcessesThatCannotJoin) {
  auto joining = std::async(std::launch::async, [] {
    return std::make_unique<Membership>(two_workers(1), Membership::Options{});
  });
  const auto leader = std::make_unique<Membership>(two_workers(0), Membership::Options{});
  const auto follower = joining.get();
  testing::internal::CaptureStderr();
  const auto endpoint = make_endpoint({.self = stranger("\x4dwhatever follows")});
  for (int i = 0; i < 100; ++i) {
    ProblemListener listener;
    const auto connection =
        endpoint->connect(two_workers(0).workers[0].address, steady_clock::now() + seconds(10));
    listener.start(connection);
    EXPECT_EQ(listener.problem().code, Code::FailedPrecondition);
    connection->close({});
  }
  endpoint->stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with("a process could not join this group", log), 1u) << log;
}

TEST(Membership, WritesOneLineForManyConnectionsOfAnotherName) {
  const PendingConnections pending;
  const std::shared_ptr<Endpoint> listening =
      make_endpoint({.self = {.name = "a", .address = "127.0.0.1:0"}}, pending.accept());
  Group group{.peers = {{.name = "a"}, {.name = "b"}}, .hosts = {"", ""}};
  pending.open(listening, group);
  group.connections->listen([](int, const auto&) { ADD_FAILURE() << "the connection was taken"; });
  testing::internal::CaptureStderr();
  const std::shared_ptr<Endpoint> other = make_endpoint({.self = {.name = "a stranger"}});
  for (int i = 0; i < 100; ++i) {
    const auto deadline = steady_clock::now() + seconds(10);
    const auto connection = other->connect(listening->self().address, deadline, 1);
    std::promise<void> refused;
    connection->start(
        {.received = [](const Message&) {}, .ended = [&](const Status&) { refused.set_value(); }});
    auto end = refused.get_future();
    EXPECT_TRUE(connection->deliver_until(
        [&] { return end.wait_for(seconds(0)) == std::future_status::ready; }, deadline));
  }
  other->stop();
  listening->stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with("is not a member of its group", log), 1u) << log;
}

}  // namespace
}  // namespace cohort::internal
