#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/http_get.h"
#include "topology/json_text.h"

namespace cohort {
namespace {

using internal::Json;
using internal::raise;

constexpr const char* kKubernetes = "Kubernetes";
constexpr int kMaxPodPages = 1000;

std::string read_account_file(const std::string& directory, const std::string& name) {
  std::ifstream file(directory + "/" + name, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || text.empty()) {
    raise(Code::FailedPrecondition,
          "[Kubernetes] '{}/{}' cannot be read; does this run in a pod with a service account?",
          directory, name);
  }
  return std::string(internal::trimmed(text));
}

std::string api_server(const KubernetesOptions& options) {
  if (!options.api_server.empty()) return options.api_server;
  const std::string host = internal::require_variable("KUBERNETES_SERVICE_HOST", kKubernetes);
  const auto port = internal::require_number("KUBERNETES_SERVICE_PORT", kKubernetes);
  return "https://" + internal::address_text(host, port);
}

std::string ask_api(const KubernetesOptions& options, const std::string& selector,
                    const std::string& next) {
  const std::string server =
      api_server(options);  // first, because its error fits best outside a pod
  const std::string& account = options.service_account;
  std::string url =
      fmt::format("{}/api/v1/namespaces/{}/pods?labelSelector={}", server,
                  read_account_file(account, "namespace"), internal::url_encoded(selector));
  if (!next.empty()) url += "&continue=" + internal::url_encoded(next);
  return internal::http_get(
      {.operation = kKubernetes,
       .url = url,
       .headers = {{"Authorization", "Bearer " + read_account_file(account, "token")},
                   {"Accept", "application/json"}},
       .ca_file = account + "/ca.crt",
       .timeout = options.timeout});
}

// The text at `path` of an answer, or "".
std::string text_at(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  return json.contains(pointer) && json.at(pointer).is_string()
             ? json.at(pointer).get<std::string>()
             : "";
}

struct Pod {
  std::string name;
  std::string address;
};

Pod read_pod(const Json& item, PodAddress which) {
  Pod pod{text_at(item, "/metadata/name"),
          text_at(item, which == PodAddress::Host ? "/status/hostIP" : "/status/podIP")};
  const std::string phase = text_at(item, "/status/phase");
  if (phase != "Running") {
    raise(Code::FailedPrecondition,
          "[Kubernetes] pod '{}' is in phase '{}', expected Running; wait until all pods run",
          internal::excerpt(pod.name), internal::excerpt(phase));
  }
  if (pod.name.empty() || pod.address.empty()) {
    raise(Code::FailedPrecondition, "[Kubernetes] pod '{}' runs but has no address",
          internal::excerpt(pod.name));
  }
  return pod;
}

// Adds the pods of one answer. Returns the token of the next answer, or "" after the last.
std::string add_pods(const std::string& answer, PodAddress which, std::vector<Pod>& pods) {
  const Json json = internal::parse_json(answer, {kKubernetes, "the list of pods"});
  const auto items = json.is_object() ? json.find("items") : json.end();
  if (!json.is_object() || items == json.end() || !items->is_array()) {
    raise(Code::InvalidArgument, "[Kubernetes] the answer is not a list of pods: '{}'",
          internal::excerpt(answer));
  }
  for (const Json& item : *items) pods.push_back(read_pod(item, which));
  return text_at(json, "/metadata/continue");
}

}  // namespace

KubernetesClusterResolver::KubernetesClusterResolver(KubernetesOptions options)
    : options_(std::move(options)) {
  rpc_layer_ = options_.rpc_layer;
  (void)internal::port_at(options_.tf_server_port, 0, kKubernetes);
}

std::vector<std::string> KubernetesClusterResolver::addresses(
    const std::string& label_selector) const {
  std::vector<Pod> pods;
  std::string next;
  int pages = 0;
  do {
    if (++pages > kMaxPodPages) {
      raise(Code::ResourceExhausted, "[Kubernetes] the list of pods has no end");
    }
    const std::string answer = options_.list_pods ? options_.list_pods(label_selector)
                                                  : ask_api(options_, label_selector, next);
    next = add_pods(answer, options_.address, pods);
  } while (!next.empty() && !options_.list_pods);
  std::ranges::sort(pods, {}, &Pod::name);
  std::vector<std::string> found;
  for (const Pod& pod : pods) {
    found.push_back(internal::address_text(pod.address, options_.tf_server_port));
  }
  return found;
}

ClusterSpec KubernetesClusterResolver::cluster_spec() const {
  std::vector<ClusterJob> jobs;
  for (const auto& [job, selectors] : options_.job_to_label_mapping) {
    TaskList tasks;
    for (const std::string& selector : selectors) {
      for (std::string& address : addresses(selector)) tasks.push_back(std::move(address));
    }
    jobs.push_back({job, tasks});
  }
  return jobs;
}

}  // namespace cohort
