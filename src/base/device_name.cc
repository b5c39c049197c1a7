#include <algorithm>
#include <cctype>
#include <ostream>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/device.h"

namespace cohort {
namespace {

using internal::raise;

constexpr std::string_view kAny = "*";

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  return internal::has_only_alnum_and("_", text);
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

bool read_number(std::string_view text, std::optional<int>& part) {
  if (text == kAny) return true;
  part = internal::parse_non_negative(text);
  return part.has_value();
}

bool read_identifier(std::string_view text, std::optional<std::string>& part) {
  if (text == kAny) return true;
  if (!is_identifier(text)) return false;
  part = std::string(text);
  return true;
}

// TYPE[:INDEX]
bool read_device(std::string_view text, DeviceName& name) {
  const size_t colon = text.find(':');
  if (!read_identifier(text.substr(0, colon), name.type)) return false;
  return colon == std::string_view::npos || read_number(text.substr(colon + 1), name.index);
}

// One "key:value". A key may come once; `seen` holds those that did.
bool read_component(std::string_view text, DeviceName& name, std::vector<std::string>& seen) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  std::string_view key = text.substr(0, colon);
  const std::string_view value = text.substr(colon + 1);
  const bool short_form = key == "cpu" || key == "CPU" || key == "gpu" || key == "GPU";
  const std::string slot(short_form ? "device" : key);
  if (std::ranges::find(seen, slot) != seen.end()) return false;
  seen.push_back(slot);
  if (key == "job") return read_identifier(value, name.job);
  if (key == "replica") return read_number(value, name.replica);
  if (key == "task") return read_number(value, name.task);
  if (key == "device") return read_device(value, name);
  if (!short_form) return false;
  name.type = upper(key);
  return read_number(value, name.index);
}

[[noreturn]] void raise_not_a_name(std::string_view text) {
  raise(Code::InvalidArgument,
        "[Device] '{}' is not a device name; expected parts of "
        "/job:NAME/replica:N/task:N/device:TYPE:N, for example /job:worker/task:0/device:CPU:0",
        text);
}

template <typename Part>
bool clash(const std::optional<Part>& a, const std::optional<Part>& b) {
  return a && b && *a != *b;
}

[[noreturn]] void raise_clash(std::string_view part, const DeviceName& a, const DeviceName& b) {
  raise(Code::InvalidArgument,
        "[Placement] the {} of '{}' and '{}' differ, so they cannot be one place", part,
        a.to_string(), b.to_string());
}

}  // namespace

std::optional<DeviceName> DeviceName::try_parse(std::string_view text) {
  DeviceName name;
  if (text.empty() || text == "/") return name;
  if (text[0] != '/') return std::nullopt;
  std::vector<std::string> seen;
  while (!text.empty()) {
    const size_t next = text.find('/', 1);
    if (!read_component(text.substr(1, next == std::string_view::npos ? next : next - 1), name,
                        seen)) {
      return std::nullopt;
    }
    text = next == std::string_view::npos ? std::string_view{} : text.substr(next);
  }
  return name;
}

DeviceName DeviceName::parse(std::string_view text) {
  if (std::optional<DeviceName> name = try_parse(text)) return *name;
  raise_not_a_name(text);
}

DeviceName DeviceName::parse_any_form(std::string_view text) {
  const bool local = !text.empty() && text[0] != '/';
  std::optional<DeviceName> name = try_parse(local ? fmt::format("/device:{}", text) : text);
  if (!name) raise_not_a_name(text);
  if (name->type) name->type = upper(*name->type);
  return *name;
}

DeviceName DeviceName::parse_local(std::string_view text) {
  DeviceName name;
  if (!read_device(text, name) || !name.type || !name.index) {
    raise(Code::InvalidArgument,
          "[Device] '{}' is not a local device name; expected TYPE:INDEX, for example CPU:0", text);
  }
  return name;
}

std::string DeviceName::to_string() const {
  std::string text;
  if (job) text += "/job:" + *job;
  if (replica) text += fmt::format("/replica:{}", *replica);
  if (task) text += fmt::format("/task:{}", *task);
  if (type || index) {
    text += fmt::format("/device:{}:{}", type.value_or("*"),
                        index ? std::to_string(*index) : std::string("*"));
  }
  return text;
}

bool DeviceName::matches(const DeviceName& device) const {
  return (!job || job == device.job) && (!replica || replica == device.replica) &&
         (!task || task == device.task) && (!type || type == device.type) &&
         (!index || index == device.index);
}

bool DeviceName::same_task(const DeviceName& other) const {
  return job && replica && task && job == other.job && replica == other.replica &&
         task == other.task;
}

DeviceName DeviceName::filled_from(const DeviceName& outer) const {
  DeviceName name = *this;
  if (!name.job) name.job = outer.job;
  if (!name.replica) name.replica = outer.replica;
  if (!name.task) name.task = outer.task;
  if (!name.type) name.type = outer.type;
  if (!name.index) name.index = outer.index;
  return name;
}

std::pair<std::string, std::string> DeviceName::split() const {
  if (!type || !index) {
    raise(Code::InvalidArgument, "[Device] '{}' has no device type and index to split off",
          to_string());
  }
  const DeviceName task_part{.job = job, .replica = replica, .task = task, .type = {}, .index = {}};
  return {task_part.to_string(), fmt::format("{}:{}", *type, *index)};
}

std::ostream& operator<<(std::ostream& out, const DeviceName& name) {
  return out << name.to_string();
}

DeviceName merge_requests(const DeviceName& a, const DeviceName& b, Placement placement) {
  if (clash(a.job, b.job)) raise_clash("job", a, b);
  if (clash(a.replica, b.replica)) raise_clash("replica", a, b);
  if (clash(a.task, b.task)) raise_clash("task", a, b);
  const bool hard = placement == Placement::Hard;
  const bool types_clash = clash(a.type, b.type);
  const bool indices_clash = clash(a.index, b.index);
  if (types_clash && hard) raise_clash("device type", a, b);
  if (indices_clash && hard) raise_clash("device index", a, b);
  DeviceName merged = a.filled_from(b);
  if (types_clash) merged.type.reset();
  if (types_clash || indices_clash) merged.index.reset();
  return merged;
}

std::string canonical_device(std::string_view device, std::string_view defaults) {
  const DeviceName base{.job = "localhost", .replica = 0, .task = 0, .type = "CPU", .index = 0};
  const DeviceName outer = DeviceName::parse_any_form(defaults).filled_from(base);
  return DeviceName::parse_any_form(device).filled_from(outer).to_string();
}

}  // namespace cohort
