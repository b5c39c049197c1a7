#include <algorithm>
#include <cerrno>
#include <set>

#include "base/raise.h"
#include "base/read_file.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

constexpr int kMaxSlots = 65535;
constexpr size_t kMaxHostfileBytes = size_t{16} << 20;

struct HostfileLine {
  std::string_view file;
  size_t number;
  std::string_view text;
};

[[noreturn]] void raise_line(const HostfileLine& line, std::string_view why) {
  raise(Code::InvalidArgument,
        "[Hostfile] line {} of '{}' is '{}': {}; expected 'host', 'host slots=N' or 'host:N'",
        line.number, line.file, excerpt(line.text), why);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trimmed(text)).empty()) {
    words.push_back(text.substr(0, text.find_first_of(" \t\r\v\f")));
    text.remove_prefix(words.back().size());
  }
  return words;
}

int slots_of(std::string_view text, const HostfileLine& line) {
  const std::optional<int> slots = parse_non_negative(text);
  if (!slots || *slots < 1 || *slots > kMaxSlots) {
    raise_line(line, fmt::format("'{}' is not a number of slots", excerpt(text)));
  }
  return *slots;
}

// "host" or "host:4"; a bare IPv6 address has more than one colon. Without a number, the slots are
// 0.
HostSlots read_host(std::string_view word, const HostfileLine& line) {
  const size_t colon = word.find(':');
  const bool counted = colon != std::string_view::npos && colon == word.rfind(':');
  HostSlots host{std::string(counted ? word.substr(0, colon) : word),
                 counted ? slots_of(word.substr(colon + 1), line) : 0};
  const bool plain = !host.host.empty() && has_only_alnum_and("-_.:", host.host);
  if (!plain) raise_line(line, "that is not the name of a host");
  return host;
}

HostSlots read_line(const HostfileLine& line) {
  const std::vector<std::string_view> words = words_of(line.text);
  HostSlots host = read_host(words[0], line);
  for (size_t i = 1; i < words.size(); ++i) {
    // Open MPI knows these words as well; they do not change the tasks.
    if (words[i].starts_with("max_slots=") || words[i].starts_with("max-slots=")) continue;
    if (!words[i].starts_with("slots=")) {
      raise_line(line, fmt::format("'{}' has no meaning", excerpt(words[i])));
    }
    if (host.slots != 0) raise_line(line, "the line gives the number of slots twice");
    host.slots = slots_of(words[i].substr(6), line);
  }
  host.slots = std::max(host.slots, 1);
  return host;
}

}  // namespace

std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name) {
  std::vector<HostSlots> hosts;
  std::set<std::string> seen;
  size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    const HostfileLine line{name, ++number, trimmed(raw.substr(0, raw.find('#')))};
    if (line.text.empty()) continue;
    hosts.push_back(read_line(line));
    if (!seen.insert(hosts.back().host).second) {
      raise_line(line, "an earlier line names the same host; give that line more slots instead");
    }
  }
  if (hosts.empty()) raise(Code::InvalidArgument, "[Hostfile] '{}' names no hosts", name);
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  const std::optional<std::string> text = read_file(path, kMaxHostfileBytes + 1);
  if (!text) raise(Code::NotFound, "[Hostfile] '{}' cannot be read: {}", path, errno_text(errno));
  if (text->size() > kMaxHostfileBytes) {
    raise(Code::InvalidArgument, "[Hostfile] '{}' is larger than 16 MB: not a hostfile", path);
  }
  return parse_hostfile(*text, path);
}

std::vector<std::string> slot_addresses(const std::vector<HostSlots>& hosts, int port_base,
                                        std::string_view operation) {
  std::vector<std::string> addresses;
  for (const HostSlots& host : hosts) {
    for (int slot = 0; slot < host.slots; ++slot) {
      addresses.push_back(address_text(host.host, port_at(port_base, slot, operation)));
    }
  }
  return addresses;
}

}  // namespace cohort::internal

namespace cohort {

HostfileClusterResolver::HostfileClusterResolver(const std::string& path,
                                                 const HostfileOptions& options) {
  constexpr const char* kOperation = "Hostfile";
  rpc_layer_ = options.rpc_layer;
  deal({internal::slot_addresses(internal::read_hostfile(path), options.port_base, kOperation),
        options.jobs, options.rank, kOperation});
}

}  // namespace cohort
