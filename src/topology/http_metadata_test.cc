#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/http_server.h"
#include "topology/http_get.h"

namespace cohort {
namespace {

std::string instance(const std::string& address, const std::string& state = "RUNNING") {
  return R"({"status": ")" + state + R"(", "networkInterfaces": [{"networkIP": ")" + address +
         R"("}]})";
}

// Answers GET /list with one text, or the status that the path names.
class ListServer {
 public:
  explicit ListServer(std::string answer) {
    server_->Get("/list", [answer](const httplib::Request&, httplib::Response& response) {
      response.set_content(answer, "application/json");
    });
    server_->Get(R"(/status/(\d+))",
                 [](const httplib::Request& request, httplib::Response& response) {
                   response.status = std::stoi(request.matches[1]);
                   response.set_header("Location", "/list");
                 });
    address_ = "http://" + server_.start();
  }
  std::string url(const std::string& path = "/list") const { return address_ + path; }

 private:
  TestServer server_;
  std::string address_;
};

TEST(HttpMetadataClusterResolver, ListsTheRunningInstancesSorted) {
  const ListServer server(R"({"items": [)" + instance("10.0.0.3") + "," +
                          instance("10.0.0.2", "STOPPING") + "," + instance("10.0.0.1") + "]}");
  HttpMetadataClusterResolver resolver({.url = server.url(), .port = 99});
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"worker", {"10.0.0.1:99", "10.0.0.3:99"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 0);
  EXPECT_EQ(resolver.master(), "grpc://10.0.0.1:99");
  resolver.set_task_id(1);
  EXPECT_EQ(resolver.master(), "grpc://10.0.0.3:99");
  EXPECT_ERROR(Code::FailedPrecondition, "cannot become 'ps'", resolver.set_task_type("ps"));
  EXPECT_EQ(resolver.task_type(), "worker");
}

TEST(HttpMetadataClusterResolver, ReadsEveryPage) {
  TestServer server;
  server->Get("/list", [](const httplib::Request& request, httplib::Response& response) {
    const std::string page = request.get_param_value("pageToken");
    const bool allowed = request.get_header_value("Metadata-Flavor") == "Google" &&
                         request.get_param_value("zone") == "a";
    if (!allowed) {
      response.status = 403;
    } else if (page.empty()) {
      response.set_content(R"({"nextPageToken": "a b&c", "items": [)" + instance("2") + "]}", "");
    } else if (page == "a b&c") {
      response.set_content(R"({"nextPageToken": "last"})", "");
    } else {
      response.set_content(R"({"items": [)" + instance("1") + "]}", "");
    }
  });
  const std::string url = "http://" + server.start() + "/list?zone=a";
  EXPECT_EQ(HttpMetadataClusterResolver({.url = url, .headers = {{"Metadata-Flavor", "Google"}}})
                .cluster_spec(),
            ClusterSpec({{"worker", {"1:8470", "2:8470"}}}));
  EXPECT_ERROR(Code::PermissionDenied, "answered 403",
               HttpMetadataClusterResolver({.url = url}).cluster_spec());
}

TEST(HttpMetadataClusterResolver, ReadsOtherClouds) {
  const ListServer server(R"({"Reservations": {"Instances": [
      {"State": {"Name": "running"}, "PrivateIpAddress": "10.1.0.1"},
      {"State": {"Name": "stopped"}, "PrivateIpAddress": "10.1.0.2"}]}})");
  const HttpMetadataClusterResolver resolver({.url = server.url(),
                                              .items = "/Reservations/Instances",
                                              .address = "/PrivateIpAddress",
                                              .state = "/State/Name",
                                              .running = "running",
                                              .next_page = "/NextToken",
                                              .page_parameter = "NextToken",
                                              .task_type = "ps",
                                              .rpc_layer = ""});
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"ps", {"10.1.0.1:8470"}}}));
  EXPECT_EQ(resolver.master(), "10.1.0.1:8470");
}

TEST(HttpMetadataClusterResolver, AListWithoutEndEnds) {
  const ListServer server(R"({"nextPageToken": "again"})");
  EXPECT_ERROR(Code::ResourceExhausted, "has no end",
               HttpMetadataClusterResolver({.url = server.url()}).cluster_spec());
}

TEST(HttpMetadataClusterResolver, BadAnswersAreErrors) {
  const struct {
    const char* answer;
    Code code;
    const char* message;
  } kCases[] = {
      {"", Code::InvalidArgument, "it is empty"},
      {"<html>", Code::InvalidArgument, "is not JSON"},
      {R"({"items": 3})", Code::InvalidArgument, "is a number; expected a list"},
      {R"({"items": [{"status": "RUNNING"}]})", Code::FailedPrecondition, "has no text at"},
  };
  for (const auto& bad : kCases) {
    SCOPED_TRACE(bad.answer);
    const ListServer server(bad.answer);
    EXPECT_ERROR(bad.code, bad.message,
                 HttpMetadataClusterResolver({.url = server.url()}).cluster_spec());
  }
  const ListServer server(R"({"items": []})");
  EXPECT_ERROR(Code::InvalidArgument, "not a JSON pointer",
               HttpMetadataClusterResolver({.url = server.url(), .items = "items"}).cluster_spec());
  EXPECT_ERROR(Code::InvalidArgument, "port", HttpMetadataClusterResolver({.port = -1}));
}

TEST(HttpGet, TheStatusBecomesACode) {
  const ListServer server("{}");
  const std::pair<int, Code> kCases[] = {
      {401, Code::Unauthenticated},   {403, Code::PermissionDenied}, {404, Code::NotFound},
      {429, Code::Unavailable},       {500, Code::Unavailable},      {503, Code::Unavailable},
      {302, Code::FailedPrecondition}};
  for (const auto& [number, code] : kCases) {
    EXPECT_ERROR(code, "answered " + std::to_string(number),
                 internal::http_get({.operation = "Test",
                                     .url = server.url("/status/" + std::to_string(number))}));
  }
}

TEST(HttpGet, AServerThatIsNotThereIsUnavailable) {
  std::string url;
  {
    const ListServer gone("{}");
    url = gone.url();
  }
  EXPECT_ERROR(Code::Unavailable, "[Test] cannot ask " + url + ": Connection",
               internal::http_get({.operation = "Test", .url = url}));
}

TEST(HttpGet, AServerThatDoesNotAnswerInTimeIsADeadline) {
  TestServer server;
  std::promise<void> end;
  server->Get("/list", [wait = end.get_future().share()](const auto&, httplib::Response& response) {
    wait.wait();
    response.set_content("{}", "");
  });
  const std::string url = "http://" + server.start() + "/list";
  EXPECT_ERROR(Code::DeadlineExceeded, "within 100 ms",
               internal::http_get(
                   {.operation = "Test", .url = url, .timeout = std::chrono::milliseconds(100)}));
  end.set_value();
}

TEST(HttpGet, OnlyHttpAndHttpsAreAddresses) {
  for (const char* url :
       {"", "ftp://a/b", "127.0.0.1:80/x", "http://", "https:///x", "file:///etc"}) {
    EXPECT_ERROR(Code::InvalidArgument, "is not an address",
                 internal::http_get({.operation = "Test", .url = url}));
  }
}

TEST(HttpGet, EncodesWhatHasAMeaningInAQuery) {
  EXPECT_EQ(internal::url_encoded("a=b, c in (d)&e~.-_"), "a%3Db%2C%20c%20in%20%28d%29%26e~.-_");
}

}  // namespace
}  // namespace cohort
