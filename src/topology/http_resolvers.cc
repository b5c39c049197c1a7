#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/raise.h"
#include "base/read_file.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/http_get.h"
#include "topology/json_text.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

// The value at `path`, or null. Throws InvalidArgument if the path is not a JSON pointer.
const Json* value_at(const Json& json, const std::string& path) {
  try {
    const Json::json_pointer pointer(path);
    return json.contains(pointer) ? &json.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    raise(Code::InvalidArgument, "[HttpMetadata] '{}' is not a JSON pointer; expected /a/0/b",
          excerpt(path));
  }
}

std::string text_at(const Json& json, const std::string& path) {
  const Json* value = value_at(json, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

void add_instances(const Json& page, const HttpMetadataOptions& options, TaskList& addresses) {
  const Json* items = value_at(page, options.items);
  if (items == nullptr) return;  // some clouds write an empty list so
  if (!items->is_array()) {
    raise(Code::InvalidArgument, "[HttpMetadata] '{}' in the answer of {} is {}; expected a list",
          options.items, options.url, kind_of(*items));
  }
  for (const Json& item : *items) {
    if (!options.state.empty() && text_at(item, options.state) != options.running) continue;
    const std::string address = text_at(item, options.address);
    if (address.empty()) {
      raise(Code::FailedPrecondition,
            "[HttpMetadata] a running instance in the answer of {} has no text at '{}'",
            options.url, options.address);
    }
    addresses.push_back(address_text(address, options.port));
  }
}

}  // namespace

InstancePage read_instance_page(std::string_view answer, const HttpMetadataOptions& options) {
  const Json json = parse_json(answer, {"HttpMetadata", "the list of instances"});
  InstancePage page;
  add_instances(json, options, page.addresses);
  if (!options.next_page.empty()) page.next = text_at(json, options.next_page);
  return page;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

using internal::Json;
using internal::raise;

constexpr const char* kHttpMetadata = "HttpMetadata";
constexpr size_t kMaxListPages = 1000;

std::string page_url(const HttpMetadataOptions& options, const std::string& token) {
  if (token.empty()) return options.url;
  return fmt::format("{}{}{}={}", options.url,
                     options.url.find('?') == std::string::npos ? '?' : '&', options.page_parameter,
                     internal::url_encoded(token));
}

constexpr const char* kKubernetes = "Kubernetes";
constexpr int kMaxPodPages = 1000;

std::string read_account_file(const std::string& directory, const std::string& name) {
  const std::string text = internal::read_file(directory + "/" + name).value_or("");
  if (text.empty()) {
    raise(Code::FailedPrecondition,
          "[Kubernetes] '{}/{}' cannot be read; does this process run in a pod with a service "
          "account?",
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

struct Pod {
  std::string name;
  std::string address;
};

Pod read_pod(const Json& item, PodAddress which) {
  Pod pod{internal::text_at(item, "/metadata/name"),
          internal::text_at(item, which == PodAddress::Host ? "/status/hostIP" : "/status/podIP")};
  const std::string phase = internal::text_at(item, "/status/phase");
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
  return internal::text_at(json, "/metadata/continue");
}

// The addresses of the pods that the selector selects, in the order of their names.
std::vector<std::string> addresses_of(const KubernetesOptions& options,
                                      const std::string& label_selector) {
  std::vector<Pod> pods;
  std::string next;
  int pages = 0;
  do {
    if (++pages > kMaxPodPages) {
      raise(Code::ResourceExhausted, "[Kubernetes] the list of pods has no end");
    }
    const std::string answer = options.list_pods ? options.list_pods(label_selector)
                                                 : ask_api(options, label_selector, next);
    next = add_pods(answer, options.address, pods);
  } while (!next.empty() && !options.list_pods);
  std::ranges::sort(pods, {}, &Pod::name);
  std::vector<std::string> found;
  for (const Pod& pod : pods) {
    found.push_back(internal::address_text(pod.address, options.tf_server_port));
  }
  return found;
}

}  // namespace

HttpMetadataClusterResolver::HttpMetadataClusterResolver(HttpMetadataOptions options)
    : options_(std::move(options)) {
  (void)internal::port_at(options_.port, 0, kHttpMetadata);
  task_type_ = options_.task_type;
  task_id_ = options_.task_id;
  rpc_layer_ = options_.rpc_layer;
}

ClusterSpec HttpMetadataClusterResolver::cluster_spec() const {
  TaskList addresses;
  std::set<std::string> tokens;
  std::string token;
  do {
    const std::string answer = internal::http_get({.operation = kHttpMetadata,
                                                   .url = page_url(options_, token),
                                                   .headers = options_.headers,
                                                   .ca_file = options_.ca_file,
                                                   .timeout = options_.timeout});
    internal::InstancePage page = internal::read_instance_page(answer, options_);
    std::move(page.addresses.begin(), page.addresses.end(), std::back_inserter(addresses));
    token = std::move(page.next);
    if (!token.empty() && (!tokens.insert(token).second || tokens.size() > kMaxListPages)) {
      raise(Code::ResourceExhausted, "[HttpMetadata] the list at {} has no end", options_.url);
    }
  } while (!token.empty());
  std::ranges::sort(addresses);
  return {{options_.task_type, addresses}};
}

void HttpMetadataClusterResolver::set_task_type(std::string task_type) {
  raise(Code::FailedPrecondition,
        "[HttpMetadata] the task type is '{}' and cannot become '{}', because it names the job of "
        "the instances; make another resolver",
        options_.task_type, internal::excerpt(task_type));
}

KubernetesClusterResolver::KubernetesClusterResolver(KubernetesOptions options)
    : options_(std::move(options)) {
  rpc_layer_ = options_.rpc_layer;
  (void)internal::port_at(options_.tf_server_port, 0, kKubernetes);
}

ClusterSpec KubernetesClusterResolver::cluster_spec() const {
  std::vector<ClusterJob> jobs;
  for (const auto& [job, selectors] : options_.job_to_label_mapping) {
    TaskList tasks;
    for (const std::string& selector : selectors) {
      for (std::string& address : addresses_of(options_, selector))
        tasks.push_back(std::move(address));
    }
    jobs.push_back({job, tasks});
  }
  return jobs;
}

}  // namespace cohort
