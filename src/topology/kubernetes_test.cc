#include <gtest/gtest.h>

#include <atomic>

#include "cohort/scheduler_resolvers.h"
#include "support/certificate.h"
#include "support/expect_error.h"
#include "support/http_server.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

std::string pod(const std::string& name, const std::string& host,
                const std::string& phase = "Running") {
  return R"({"metadata": {"name": ")" + name + R"("}, "status": {"phase": ")" + phase +
         R"(", "hostIP": ")" + host + R"(", "podIP": "172.16.0.9"}})";
}

std::string pod_list(const std::string& pods, const std::string& next = "") {
  return R"({"kind": "PodList", "metadata": {"continue": ")" + next + R"("}, "items": [)" + pods +
         "]}";
}

// A service account as a pod finds it, and the API it is for.
class FakeKubernetes {
 public:
  FakeKubernetes()
      : server_(
            std::make_unique<httplib::SSLServer>(certificate_.certificate(), certificate_.key())) {
    account_.write("token", "secret\n");
    account_.write("namespace", "training");
    account_.write("ca.crt", certificate_.pem());
    server_->Get("/api/v1/namespaces/training/pods",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   ++requests_;
                   answer(request, response);
                 });
    address_ = server_.start();
  }

  // The pods of a label selector; a second page when there is one.
  void set_pods(const std::string& selector, std::vector<std::string> pages) {
    pages_[selector] = std::move(pages);
  }
  KubernetesOptions options() const {
    return {.api_server = "https://" + address_, .service_account = account_.path()};
  }
  const TemporaryDirectory& account() const { return account_; }
  const std::string& address() const { return address_; }
  int requests() const { return requests_; }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization") != "Bearer secret") {
      response.status = 401;
      return;
    }
    const std::string next = request.get_param_value("continue");
    const auto& pages = pages_[request.get_param_value("labelSelector")];
    const size_t page = next.empty() ? 0 : std::stoul(next);
    if (pages.empty()) return response.set_content(pod_list(""), "application/json");
    const std::string more = page + 1 < pages.size() ? std::to_string(page + 1) : "";
    response.set_content(pod_list(pages[page], more), "application/json");
  }

  TestCertificate certificate_;
  TemporaryDirectory account_;
  std::map<std::string, std::vector<std::string>> pages_;
  std::atomic<int> requests_ = 0;
  TestServer server_;
  std::string address_;
};

TEST(KubernetesClusterResolver, AsksTheApiOverHttpsWithTheServiceAccount) {
  FakeKubernetes kubernetes;
  kubernetes.set_pods("job-name=tensorflow", {pod("b", "10.0.0.2") + "," + pod("a", "10.0.0.1")});
  KubernetesClusterResolver resolver(kubernetes.options());
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"worker", {"10.0.0.1:8470", "10.0.0.2:8470"}}}));
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.task_id(), std::nullopt);
  const int before = kubernetes.requests();
  EXPECT_EQ(resolver.master(), "");
  EXPECT_EQ(kubernetes.requests(), before);
  resolver.set_task_type("worker");
  resolver.set_task_id(1);
  EXPECT_EQ(resolver.master(), "grpc://10.0.0.2:8470");
  EXPECT_EQ(resolver.master("worker", 0, "x"), "x://10.0.0.1:8470");
}

TEST(KubernetesClusterResolver, FindsTheApiByTheVariablesOfAPod) {
  FakeKubernetes kubernetes;
  kubernetes.set_pods("job-name=tensorflow", {pod("a", "10.0.0.1")});
  const ScopedEnvironment environment(
      {{"KUBERNETES_SERVICE_HOST", "127.0.0.1"},
       {"KUBERNETES_SERVICE_PORT", kubernetes.address().substr(std::string("127.0.0.1:").size())}});
  const KubernetesClusterResolver resolver({.service_account = kubernetes.account().path()});
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"worker", {"10.0.0.1:8470"}}}));
}

TEST(KubernetesClusterResolver, KeepsTheOrderOfSelectorsAndSortsThePodsOfEach) {
  FakeKubernetes kubernetes;
  kubernetes.set_pods("role=big,zone in (a, b)", {pod("z", "10.0.0.9")});
  kubernetes.set_pods("role=small", {pod("y", "10.0.0.8"), pod("x", "10.0.0.7")});
  kubernetes.set_pods("role=ps", {pod("p", "fe80::1")});
  KubernetesOptions options = kubernetes.options();
  options.job_to_label_mapping = {{"worker", {"role=big,zone in (a, b)", "role=small"}},
                                  {"ps", {"role=ps"}}};
  options.tf_server_port = 2222;
  EXPECT_EQ(KubernetesClusterResolver(options).cluster_spec(),
            ClusterSpec({{"ps", {"[fe80::1]:2222"}},
                         {"worker", {"10.0.0.9:2222", "10.0.0.7:2222", "10.0.0.8:2222"}}}));
}

TEST(KubernetesClusterResolver, WithoutPodsTheJobIsEmpty) {
  FakeKubernetes kubernetes;
  EXPECT_EQ(KubernetesClusterResolver(kubernetes.options()).cluster_spec(),
            ClusterSpec({{"worker", {}}}));
}

TEST(KubernetesClusterResolver, TakesAnotherWayToListPods) {
  KubernetesOptions options;
  options.list_pods = [](const std::string& selector) {
    return pod_list(pod(selector, "10.0.0.1"), "ignored");
  };
  options.address = PodAddress::Pod;
  EXPECT_EQ(KubernetesClusterResolver(options).cluster_spec(),
            ClusterSpec({{"worker", {"172.16.0.9:8470"}}}));
}

TEST(KubernetesClusterResolver, APodThatDoesNotRunIsAnError) {
  for (const char* phase : {"Pending", "Succeeded", "Failed", "Unknown", ""}) {
    FakeKubernetes kubernetes;
    kubernetes.set_pods("job-name=tensorflow", {pod("a", "10.0.0.1") + "," + pod("b", "", phase)});
    EXPECT_ERROR(Code::FailedPrecondition, "pod 'b' is in phase '" + std::string(phase) + "'",
                 KubernetesClusterResolver(kubernetes.options()).cluster_spec());
  }
}

TEST(KubernetesClusterResolver, ABadAnswerIsAnError) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "it is empty"},
      {"<html>", "is not JSON"},
      {"[]", "not a list of pods"},
      {"{}", "not a list of pods"},
      {R"({"items": {}})", "not a list of pods"},
      {R"({"items": [7]})", "is in phase ''"},
      {R"({"items": [{"metadata": "x", "status": []}]})", "is in phase ''"},
      {R"({"items": [{"metadata": {"name": "a"}, "status": {"phase": "Running"}}]})",
       "pod 'a' runs but has no address"},
  };
  for (const auto& [answer, message] : kCases) {
    SCOPED_TRACE(answer);
    KubernetesOptions options;
    options.list_pods = [text = answer](const std::string&) { return text; };
    const Status status =
        error_of([&] { (void)KubernetesClusterResolver(options).cluster_spec(); });
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message.find(message), std::string::npos) << status.message;
  }
}

TEST(KubernetesClusterResolver, RefusesAServerThatNobodyVouchesFor) {
  FakeKubernetes kubernetes;
  kubernetes.account().write("ca.crt", TestCertificate().pem());
  EXPECT_ERROR(Code::Unauthenticated, "[Kubernetes] cannot ask https://127.0.0.1:",
               KubernetesClusterResolver(kubernetes.options()).cluster_spec());
  EXPECT_EQ(kubernetes.requests(), 0);
}

TEST(KubernetesClusterResolver, SaysThatTheTokenIsWrongOrMissing) {
  FakeKubernetes kubernetes;
  kubernetes.account().write("token", "stale");
  EXPECT_ERROR(Code::Unauthenticated, "answered 401",
               KubernetesClusterResolver(kubernetes.options()).cluster_spec());
  kubernetes.account().write("token", "");
  EXPECT_ERROR(Code::FailedPrecondition, "/token' cannot be read",
               KubernetesClusterResolver(kubernetes.options()).cluster_spec());
}

TEST(KubernetesClusterResolver, OutsideOfAPodSaysWhatIsMissing) {
  const ScopedEnvironment environment(
      {{"KUBERNETES_SERVICE_HOST", std::nullopt}, {"KUBERNETES_SERVICE_PORT", std::nullopt}});
  EXPECT_ERROR(Code::FailedPrecondition, "KUBERNETES_SERVICE_HOST is not set",
               KubernetesClusterResolver().cluster_spec());
  EXPECT_ERROR(Code::InvalidArgument, "[Kubernetes] port",
               KubernetesClusterResolver({.tf_server_port = 70000}));
}

}  // namespace
}  // namespace cohort
