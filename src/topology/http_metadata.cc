#include <algorithm>
#include <iterator>
#include <set>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/http_get.h"
#include "topology/instance_list.h"
#include "topology/text.h"

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
