// Who is not let in, and that nothing of what they ask for happens.

#include <fmt/format.h>

#include <atomic>

#include "rpc/certificates.h"
#include "rpc/dialer.h"
#include "rpc/grpc_endpoint.h"
#include "rpc/listener.h"
#include "rpc/task_status.h"
#include "support/expect_error.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

constexpr char kWorker[] = "/job:worker/replica:0/task:0";
constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

// A caller that does not check its own credentials first, as an honest one does.
class Caller {
 public:
  Caller(Handshake handshake, const Credentials& credentials)
      : queue_thread_(
            std::make_shared<CompletionQueueThread>(std::make_unique<grpc::CompletionQueue>())),
        dialer_(queue_thread_, std::move(handshake), credentials) {}

  Status outcome(const std::string& address) {
    return error_of([&] {
      const auto answered =
          dialer_.dial(address, std::chrono::steady_clock::now() + std::chrono::seconds(1));
      dialer_.leave(answered);
    });
  }

 private:
  std::shared_ptr<CompletionQueueThread> queue_thread_;
  Dialer dialer_;
};

// A ps with certificates and a token.
class Refusal : public testing::Test {
 protected:
  Refusal()
      : server_(make_endpoint({.self = {.name = kPs, .address = "127.0.0.1:0"},
                               .cluster = 1,
                               .credentials = issue({.name = kPs}),
                               .transport = TransportKind::Grpc},
                              [this](const auto&) { ++accepted_; })) {}
  ~Refusal() override {
    server_->stop();
    EXPECT_EQ(accepted_, 0);
  }

  Credentials issue(CertificateRequest request) const {
    request.token = kToken;
    return authority_.issue(request);
  }
  static Handshake handshake(const std::string& name) {
    return {.peer = {.name = name, .cluster = 1}};
  }
  Status outcome(const Handshake& handshake, const Credentials& credentials) const {
    return Caller(handshake, credentials).outcome(server_->self().address);
  }
  void expect_refusal(Code code, const std::string& fragment, const Status& status) const {
    EXPECT_EQ(status.code, code) << status;
    EXPECT_NE(status.message.find(fragment), std::string::npos) << status;
    EXPECT_NE(status.message.find("[Connect]"), std::string::npos) << status;
    for (const char* internal : {"OS Error", "Socket closed", "failed to connect to all"}) {
      EXPECT_EQ(status.message.find(internal), std::string::npos) << status;
    }
  }

  const RunAuthority authority_;
  std::atomic<int> accepted_ = 0;
  std::unique_ptr<Endpoint> server_;
};

TEST_F(Refusal, TheRightCredentialsAreLetIn) {
  const Status status = outcome(handshake(kWorker), issue({.name = kWorker}));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(outcome(handshake("client"), issue({.name = "client"})).ok());
}

TEST_F(Refusal, NoCertificate) {
  Credentials none;
  none.token = kToken;
  expect_refusal(Code::Unauthenticated, "demands certificates and this side has none",
                 outcome(handshake(kWorker), none));
}

TEST_F(Refusal, ACertificateOfAnotherAuthority) {
  Credentials theirs = RunAuthority().issue({.name = kWorker, .token = kToken});
  theirs.authority = issue({.name = kWorker}).authority;  // it believes the server
  expect_refusal(Code::Unauthenticated, "refused this side's certificate",
                 outcome(handshake(kWorker), theirs));
}

TEST_F(Refusal, AServerOfAnotherAuthority) {
  expect_refusal(
      Code::Unauthenticated, "was not signed by this side's authority",
      outcome(handshake(kWorker), RunAuthority().issue({.name = kWorker, .token = kToken})));
}

TEST_F(Refusal, AnExpiredCertificate) {
  expect_refusal(Code::Unauthenticated, "refused this side's certificate",
                 outcome(handshake(kWorker), issue({.name = kWorker, .valid_to_seconds = -60})));
}

TEST_F(Refusal, ACertificateThatIsNotYetValid) {
  expect_refusal(Code::Unauthenticated, "refused this side's certificate",
                 outcome(handshake(kWorker), issue({.name = kWorker, .valid_from_seconds = 600})));
}

TEST_F(Refusal, ATaskWithAnotherTasksCertificate) {
  expect_refusal(Code::PermissionDenied, "says that it is /job:worker/replica:0/task:0",
                 outcome(handshake(kWorker), issue({.name = kPs})));
}

TEST_F(Refusal, AClientThatSaysItIsATask) {
  expect_refusal(Code::PermissionDenied, "its certificate is for [cohort:client]",
                 outcome(handshake(kWorker), issue({.name = "client"})));
}

TEST_F(Refusal, NoToken) {
  Credentials without = issue({.name = kWorker});
  without.token.clear();
  expect_refusal(Code::Unauthenticated, "the caller shows none",
                 outcome(handshake(kWorker), without));
  EXPECT_ERROR(Code::Unauthenticated, "token",
               ask_status(server_->self().address, without, MessageLog::soon()));
}

TEST_F(Refusal, AnotherToken) {
  Credentials wrong = issue({.name = kWorker});
  wrong.token.back() = 'x';
  expect_refusal(Code::Unauthenticated, "the caller shows another",
                 outcome(handshake(kWorker), wrong));
}

TEST_F(Refusal, TheBeginningOfTheToken) {
  Credentials wrong = issue({.name = kWorker});
  wrong.token.pop_back();
  expect_refusal(Code::Unauthenticated, "the caller shows another",
                 outcome(handshake(kWorker), wrong));
}

TEST_F(Refusal, AnotherCluster) {
  Handshake other = handshake(kWorker);
  other.peer.cluster = 2;
  expect_refusal(Code::FailedPrecondition, "belongs to cluster",
                 outcome(other, issue({.name = kWorker})));
}

TEST_F(Refusal, AnotherVersionOfTheProtocol) {
  Handshake other = handshake(kWorker);
  other.protocol = kProtocolVersion + 1;
  expect_refusal(Code::FailedPrecondition,
                 fmt::format("speaks version {} of the protocol", other.protocol),
                 outcome(other, issue({.name = kWorker})));
}

TEST_F(Refusal, ANameThatWouldSpoilALog) {
  expect_refusal(
      Code::InvalidArgument, "not a printable text",
      Status{outcome(handshake("x\nERROR forged"), issue({.name = "client"})).code,
             "[Connect] " + outcome(handshake("x\ny"), issue({.name = "client"})).message});
}

// A server that poses as a worker with the certificate of a ps.
TEST_F(Refusal, AServerWithAnotherTasksCertificate) {
  Listener listener({.host = "127.0.0.1", .credentials = issue({.name = kPs})});
  listener.start(handshake(kWorker), {.accept = [this](const auto&) { ++accepted_; }});
  const std::string address = "127.0.0.1:" + std::to_string(listener.port());
  expect_refusal(Code::PermissionDenied,
                 "the process that answers says that it is /job:worker/replica:0/task:0",
                 Caller(handshake(kPs), issue({.name = kPs})).outcome(address));
  listener.stop();
  listener.queue_thread()->stop();
}

TEST_F(Refusal, AServerWithoutTls) {
  const auto plain = make_endpoint(
      {.self = {.name = kPs, .address = "127.0.0.1:0"}, .transport = TransportKind::Grpc},
      [this](const auto&) { ++accepted_; });
  expect_refusal(
      Code::Unauthenticated, "does not speak TLS",
      Caller(handshake(kWorker), issue({.name = kWorker})).outcome(plain->self().address));
}

TEST(Credentials, ThatCanNotWorkAreRefusedAtTheStart) {
  const RunAuthority authority;
  const auto start = [&](const Credentials& credentials) {
    make_endpoint({.self = {.name = kWorker, .address = "127.0.0.1:0"}, .credentials = credentials},
                  [](const auto&) {});
  };
  const Credentials good = authority.issue({.name = kWorker});
  start(good);
  EXPECT_ERROR(Code::PermissionDenied, "needs the alternative name URI:cohort:/job:worker",
               start(authority.issue({.name = kPs})));
  EXPECT_ERROR(Code::FailedPrecondition, "expired on",
               start(authority.issue({.name = kWorker, .valid_to_seconds = -60})));
  EXPECT_ERROR(Code::FailedPrecondition, "valid from",
               start(authority.issue({.name = kWorker, .valid_from_seconds = 600})));
  Credentials bad = good;
  bad.private_key = authority.issue({.name = kWorker}).private_key;
  EXPECT_ERROR(Code::InvalidArgument, "does not belong to the certificate", start(bad));
  bad = good;
  bad.private_key = "no key";
  EXPECT_ERROR(Code::InvalidArgument, "the private key is not in PEM form", start(bad));
  bad = good;
  bad.certificate = "no certificate";
  EXPECT_ERROR(Code::InvalidArgument, "the certificate is not a certificate", start(bad));
  bad = good;
  bad.authority.clear();
  EXPECT_ERROR(Code::InvalidArgument, "needs a private key and an authority", start(bad));
  bad = {.authority = good.authority};
  EXPECT_ERROR(Code::InvalidArgument, "needs a certificate", start(bad));
  bad = {.token = "short"};
  EXPECT_ERROR(Code::InvalidArgument, "can be guessed", start(bad));
}

}  // namespace
}  // namespace cohort::internal
