#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/http_get.h"
#include "topology/json_text.h"
#include "topology/text.h"

namespace cohort {
namespace {

using internal::Json;
using internal::raise;

constexpr const char* kHttpMetadata = "HttpMetadata";
constexpr size_t kMostListPages = 1000;

// What is at `path`, null when nothing is. A path that is no JSON pointer is InvalidArgument.
const Json* value_at(const Json& json, const std::string& path) {
  try {
    const Json::json_pointer pointer(path);
    return json.contains(pointer) ? &json.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    raise(Code::InvalidArgument, "[HttpMetadata] '{}' is not a JSON pointer; expected /a/0/b",
          internal::excerpt(path));
  }
}

std::string text_of_value(const Json& json, const std::string& path) {
  const Json* value = value_at(json, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::string page_url(const HttpMetadataOptions& options, const std::string& token) {
  if (token.empty()) return options.url;
  return fmt::format("{}{}{}={}", options.url,
                     options.url.find('?') == std::string::npos ? '?' : '&', options.page_parameter,
                     internal::url_encoded(token));
}

void add_instances(const Json& page, const HttpMetadataOptions& options, TaskList& addresses) {
  const Json* items = value_at(page, options.items);
  if (items == nullptr) return;  // how an empty list is written
  if (!items->is_array()) {
    raise(Code::InvalidArgument, "[HttpMetadata] '{}' in the answer of {} is {}; expected a list",
          options.items, options.url, internal::kind_of(*items));
  }
  for (const Json& item : *items) {
    if (!options.state.empty() && text_of_value(item, options.state) != options.running) continue;
    const std::string address = text_of_value(item, options.address);
    if (address.empty()) {
      raise(Code::FailedPrecondition,
            "[HttpMetadata] a running instance in the answer of {} has no text at '{}'",
            options.url, options.address);
    }
    addresses.push_back(internal::address_text(address, options.port));
  }
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
    const Json page = internal::parse_json(answer, {kHttpMetadata, "the list of instances"});
    add_instances(page, options_, addresses);
    token = options_.next_page.empty() ? "" : text_of_value(page, options_.next_page);
    if (!token.empty() && (!tokens.insert(token).second || tokens.size() > kMostListPages)) {
      raise(Code::ResourceExhausted, "[HttpMetadata] the list at {} has no end", options_.url);
    }
  } while (!token.empty());
  std::sort(addresses.begin(), addresses.end());
  return {{options_.task_type, addresses}};
}

void HttpMetadataClusterResolver::set_task_type(std::string task_type) {
  raise(Code::FailedPrecondition,
        "[HttpMetadata] the task type is '{}' and cannot become '{}': the instances were asked for "
        "as that job; make another resolver",
        options_.task_type, internal::excerpt(task_type));
}

}  // namespace cohort
