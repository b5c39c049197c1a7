// What a server answers to those who do not use the library's own session.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cluster/protocol.h"
#include "cluster/request_link.h"
#include "cohort/cohort.h"
#include "graph/serialize_graph.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

class SessionProtocol : public testing::Test {
 protected:
  ~SessionProtocol() override {
    for (const Link::Pointer& link : links_) link->close({.code = Code::Cancelled});
    endpoint_->stop();
  }

  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

  Link::Pointer connect() {
    links_.push_back(
        Link::start(endpoint_->connect(cluster_.spec().task_address("worker", 0), soon()), "",
                    {.received = [](const auto&, const Message&) {},
                     .ended = [](const auto&, const Status&) {}}));
    return links_.back();
  }

  // A session on a graph of one placeholder "x".
  uint64_t open(const Link::Pointer& link) {
    OpenSession request{.client = "a test", .graph = buffer_of(nodes("x"))};
    return link->call(encode(request), soon()).numbers.at(0);
  }
  static std::string nodes(const std::string& name) {
    Graph graph;
    const auto building = graph.as_default();
    placeholder(kFloat32, {}, name);
    return graph.serialize();
  }
  static uint64_t extend(const Link::Pointer& link, uint64_t session, uint64_t version,
                         const std::string& name) {
    const ExtendSession request{
        .session = session, .version = version, .graph = buffer_of(nodes(name))};
    return link->call(encode(request), soon()).numbers.at(0);
  }
  static uint64_t prepare(const Link::Pointer& link, uint64_t session, const std::string& fetch,
                          const std::vector<std::string>& over = {}) {
    const PrepareRun request{
        .session = session, .feeds = {"x:0"}, .fetches = {fetch}, .over = over};
    return link->call(encode(request), soon()).numbers.at(0);
  }

  test::LocalCluster cluster_{0, 1};
  std::unique_ptr<Endpoint> endpoint_ = make_client_endpoint({});
  std::vector<Link::Pointer> links_;
};

// A stranger may connect as often as it likes, and must not fill the disk with the server's log.
TEST_F(SessionProtocol, ManyMalformedMessagesCauseOneLogLine) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 50; ++i) {
    MessageLog log;
    const auto stranger = endpoint_->connect(cluster_.spec().task_address("worker", 0), soon());
    stranger->start(log.events());
    stranger->send({std::string(i + 1, '\xff')});
    ASSERT_NE(log.await_end().code, Code::Unknown) << "the server did not end the connection";
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST_F(SessionProtocol, AnExtensionOfAnOldVersionIsAborted) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  EXPECT_EQ(extend(link, session, 1, "y"), 2u);
  EXPECT_ERROR(Code::Aborted, "version 2", extend(link, session, 1, "z"));
  EXPECT_ERROR(Code::Aborted, "version 2", extend(link, session, 3, "z"));
  EXPECT_EQ(extend(link, session, 2, "z"), 3u);
}

TEST_F(SessionProtocol, OfManyExtensionsOfOneVersionOneSucceeds) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  std::atomic<int> succeeded = 0;
  std::atomic<int> aborted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const Status status = error_of([&] { extend(link, session, 1, "y" + std::to_string(i)); });
      (status.ok() ? succeeded : aborted) += status.ok() || status.code == Code::Aborted ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(succeeded, 1);
  EXPECT_EQ(aborted, 7);
}

TEST_F(SessionProtocol, ANameThatIsTakenIsRefusedAndChangesNothing) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  EXPECT_ERROR(Code::InvalidArgument, "x", extend(link, session, 1, "x"));
  EXPECT_EQ(extend(link, session, 1, "y"), 2u);
  (void)prepare(link, session, "x:0");
}

TEST_F(SessionProtocol, AnUnknownSessionIsAborted) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  EXPECT_ERROR(Code::Aborted, "open a new", extend(link, session + 1, 1, "y"));
  EXPECT_ERROR(Code::Aborted, "open a new", prepare(link, session + 1, "x:0"));
  // Another client's is as unknown.
  EXPECT_ERROR(Code::Aborted, "open a new", prepare(connect(), session, "x:0"));
  (void)prepare(link, session, "x:0");
}

TEST_F(SessionProtocol, ATensorThatIsNotThereYetIsNotFound) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  EXPECT_ERROR(Code::NotFound, "'y:0'", prepare(link, session, "y:0"));
  for (const char* name : {"x:1", "x:-1", "x:", "x:0x", ":0", ""}) {
    EXPECT_ERROR(Code::NotFound, "has no tensor", prepare(link, session, name));
  }
  extend(link, session, 1, "y");
  EXPECT_NE(error_of([&] { prepare(link, session, "y:0"); }).code, Code::NotFound);
}

TEST_F(SessionProtocol, WhatIsOverCannotBeComputedFrom) {
  const Link::Pointer link = connect();
  const uint64_t session = open(link);
  extend(link, session, 1, "y");
  EXPECT_ERROR(Code::NotFound, "no node 'z'", prepare(link, session, "x:0", {"z"}));
  EXPECT_ERROR(Code::InvalidArgument, "'y' has been computed",
               prepare(link, session, "y:0", {"y"}));
}

TEST_F(SessionProtocol, AGraphThatIsNoneIsRefused) {
  const Link::Pointer link = connect();
  const OpenSession nonsense{.client = "a test", .graph = buffer_of("nonsense")};
  EXPECT_ERROR(Code::InvalidArgument, "", link->call(encode(nonsense), soon()));
  (void)open(link);  // the connection lives
}

TEST(Protocol, ARequestHasItsNumberAfterItsKind) {
  const Message message = numbered(encode(CloseSession{.session = 7}), 300);
  EXPECT_EQ(kind_of(message), MessageKind::CloseSession);
  EXPECT_EQ(request_of(message), 300u);
  EXPECT_EQ(decode<CloseSession>(message).session, 7u);
}

TEST(Protocol, AMessageOfAnotherKindIsRefused) {
  EXPECT_ERROR(Code::DataLoss, "a plan: it is of another kind",
               decode<RegisterPlan>(encode(CancelStep{.session = 1, .item = 2})));
}

TEST(Protocol, EdgesWithoutTheirTensorsAreRefused) {
  EXPECT_ERROR(Code::DataLoss, "edges and tensors differ in number",
               decode<StepTensors>(encode(StepTensors{.edges = {1, 2}, .tensors = {Tensor()}})));
}

TEST(Protocol, AClusterWithAJobTwiceIsRefused) {
  OpenSession request;
  request.options.cluster = ClusterSpec{{"chief", {"h0:1"}}, {"chieg", {"h1:1"}}};
  Message message = numbered(encode(request), 1);
  const size_t job = message.header.find("chieg");
  ASSERT_NE(job, std::string::npos);
  message.header.replace(job, 5, "chief");
  EXPECT_ERROR(Code::DataLoss, "job 'chief' is given twice", decode<OpenSession>(message));
}

}  // namespace
}  // namespace cohort::internal
