#include "topology/instance_list.h"

#include <nlohmann/json.hpp>

#include "base/raise.h"
#include "topology/address.h"
#include "topology/json_text.h"
#include "topology/text.h"

namespace cohort::internal {
namespace {

// What is at `path`, null when nothing is. A path that is no JSON pointer is InvalidArgument.
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
  if (items == nullptr) return;  // how an empty list is written
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
