#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/http_get.h"
#include "topology/json_text.h"
#include "topology/resolver_parts.h"

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

std::string text_of_value(const Json& json, const std::string& path) {
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
    if (!options.state.empty() && text_of_value(item, options.state) != options.running) continue;
    const std::string address = text_of_value(item, options.address);
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
  if (!options.next_page.empty()) page.next = text_of_value(json, options.next_page);
  return page;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

using internal::raise;

constexpr const char* kHttpMetadata = "HttpMetadata";
constexpr size_t kMaxListPages = 1000;

std::string page_url(const HttpMetadataOptions& options, const std::string& token) {
  if (token.empty()) return options.url;
  return fmt::format("{}{}{}={}", options.url,
                     options.url.find('?') == std::string::npos ? '?' : '&', options.page_parameter,
                     internal::url_encoded(token));
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
        "[HttpMetadata] the task type is '{}' and cannot become '{}': the instances were asked for "
        "as that job; make another resolver",
        options_.task_type, internal::excerpt(task_type));
}

}  // namespace cohort
