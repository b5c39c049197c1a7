#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxNodes = 100'000;

[[noreturn]] void raise_node_list(std::string_view text, std::string_view why) {
  raise(Code::InvalidArgument,
        "[Slurm] the host list '{}' cannot be read: {}; expected a form like a[3-5],b7",
        excerpt(text), why);
}

// The parts between commas outside brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '[' && inside) || (c == ']' && !inside)) {
      raise_node_list(text, fmt::format("a '{}' too many", c));
    }
    if (c == '[' || c == ']') inside = c == '[';
    if (c != ',' || inside) continue;
    parts.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  if (inside) raise_node_list(text, "a ']' is missing");
  parts.push_back(text.substr(from));
  return parts;
}

uint64_t node_number(std::string_view digits, std::string_view text) {
  uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const bool plain =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!plain || digits.size() > 18) {
    raise_node_list(text, fmt::format("'{}' is not a number", excerpt(digits)));
  }
  std::from_chars(digits.data(), end, number);
  return number;
}

// Adds the texts that "08-10" or "7" stands for.
void expand_range(std::string_view range, std::string_view text, std::vector<std::string>& all) {
  const size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const std::string_view high_text =
      dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  const uint64_t low = node_number(low_text, text);
  const uint64_t high = node_number(high_text, text);
  if (high < low) raise_node_list(text, fmt::format("the range {} goes down", range));
  if (high_text.size() > 1 && high_text[0] == '0' && high_text.size() != low_text.size()) {
    raise_node_list(text, fmt::format("the ends of {} have different leading zeros", range));
  }
  if (high - low >= kMaxNodes || all.size() + (high - low) >= kMaxNodes) {
    raise_node_list(text, "it means more than 100,000 hosts");
  }
  for (uint64_t i = low; i <= high; ++i) {
    all.push_back(fmt::format("{:0{}}", i, low_text.size()));
  }
}

// Every name with every ending.
std::vector<std::string> combined(const std::vector<std::string>& names,
                                  const std::vector<std::string>& endings, std::string_view text) {
  if (names.size() * endings.size() > kMaxNodes) {
    raise_node_list(text, "it means more than 100,000 hosts");
  }
  std::vector<std::string> all;
  for (const std::string& name : names) {
    for (const std::string& ending : endings) all.push_back(name + ending);
  }
  return all;
}

void check_name(std::string_view name, std::string_view text) {
  if (has_only_alnum_and("-_.", name)) return;
  raise_node_list(text, fmt::format("'{}' is not part of a name", excerpt(name)));
}

std::vector<std::string> expand_host(std::string_view host, std::string_view text) {
  if (host.empty()) raise_node_list(text, "a name is empty");
  if (host[0] == '[') raise_node_list(text, "a name begins with a bracket");
  std::vector<std::string> names = {""};
  while (!host.empty()) {
    const size_t open = host.find('[');
    check_name(host.substr(0, open), text);
    names = combined(names, {std::string(host.substr(0, open))}, text);
    if (open == std::string_view::npos) break;
    const size_t close = host.find(']', open);
    std::vector<std::string> inside;
    for (const std::string_view range : split(host.substr(open + 1, close - open - 1), ',')) {
      expand_range(range, text, inside);
    }
    names = combined(names, inside, text);
    host = host.substr(close + 1);
  }
  return names;
}

[[noreturn]] void raise_counts(std::string_view text, std::string_view part) {
  raise(Code::InvalidArgument,
        "[Slurm] '{}' in the tasks per node '{}' cannot be read; expected a form like 2(x3),1",
        excerpt(part), excerpt(text));
}

// "2" or "2(x3)".
void expand_count(std::string_view part, std::string_view text, std::vector<int>& all) {
  const size_t open = part.find('(');
  const std::optional<int> count = parse_non_negative(part.substr(0, open));
  std::optional<int> times = 1;
  if (open != std::string_view::npos) {
    const std::string_view repeat = part.substr(open);
    if (!repeat.starts_with("(x") || !repeat.ends_with(")")) raise_counts(text, part);
    times = parse_non_negative(repeat.substr(2, repeat.size() - 3));
  }
  if (!count || !times || *count < 1 || *times < 1) raise_counts(text, part);
  if (all.size() + static_cast<size_t>(*times) > kMaxNodes) raise_counts(text, part);
  all.insert(all.end(), static_cast<size_t>(*times), *count);
}

}  // namespace

std::vector<std::string> parse_node_list(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view part : split_outside_brackets(text)) {
    for (std::string& host : expand_host(part, text)) hosts.push_back(std::move(host));
    if (hosts.size() > kMaxNodes) raise_node_list(text, "it means more than 100,000 hosts");
  }
  return hosts;
}

std::vector<int> parse_task_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string_view part : split(text, ',')) expand_count(part, text, counts);
  return counts;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

using internal::raise;

constexpr const char* kSlurm = "Slurm";

using HostTasks = std::map<std::string, int>;  // tasks on each host; sorted by name

HostTasks tasks_as_slurm_says(const std::vector<std::string>& hosts) {
  const std::vector<int> counts =
      internal::parse_task_counts(internal::require_variable("SLURM_STEP_TASKS_PER_NODE", kSlurm));
  if (counts.size() != hosts.size()) {
    raise(Code::InvalidArgument,
          "[Slurm] SLURM_STEP_NODELIST has {} hosts, but SLURM_STEP_TASKS_PER_NODE has counts for "
          "{} hosts",
          hosts.size(), counts.size());
  }
  HostTasks tasks;
  for (size_t i = 0; i < hosts.size(); ++i) tasks[hosts[i]] += counts[i];
  return tasks;
}

HostTasks tasks_on_hosts(const SlurmOptions& options) {
  if (const auto* given = std::get_if<HostTasks>(&options.tasks_per_node)) return *given;
  const std::vector<std::string> hosts =
      internal::parse_node_list(internal::require_variable("SLURM_STEP_NODELIST", kSlurm));
  if (std::holds_alternative<std::monostate>(options.tasks_per_node)) {
    return tasks_as_slurm_says(hosts);
  }
  HostTasks tasks;
  for (const std::string& host : hosts) tasks[host] = std::get<int>(options.tasks_per_node);
  return tasks;
}

int most_tasks_per_host(const HostTasks& tasks) {
  int most = 0;
  int64_t total = 0;
  for (const auto& [host, count] : tasks) {
    total += count;
    if (count < 1) {
      raise(Code::InvalidArgument, "[Slurm] {} tasks on host '{}'; expected one or more", count,
            host);
    }
    most = std::max(most, count);
  }
  constexpr int64_t kMaxTasks = 1'000'000;
  if (total < 1 || total > kMaxTasks) {
    raise(Code::InvalidArgument, "[Slurm] {} tasks on {} hosts; expected 1 to {}", total,
          tasks.size(), kMaxTasks);
  }
  return most;
}

// The GPUs of a node by the names that CUDA_VISIBLE_DEVICES takes.
std::vector<std::string> gpus_of_node(const SlurmOptions& options) {
  if (!options.gpus_per_node) {
    if (std::optional<std::vector<std::string>> named = internal::named_gpus()) return *named;
  }
  const int count = options.gpus_per_node.value_or(internal::installed_gpu_count());
  if (count < 0) {
    raise(Code::InvalidArgument, "[Slurm] gpus_per_node must not be negative, got {}", count);
  }
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(std::to_string(i));
  return ids;
}

int share_of_gpus(const SlurmOptions& options, int gpus, int tasks) {
  const int share = options.gpus_per_task.value_or(gpus / tasks);
  if (share < 0) {
    raise(Code::InvalidArgument, "[Slurm] gpus_per_task must not be negative, got {}", share);
  }
  if (int64_t{share} * tasks > gpus) {
    raise(Code::FailedPrecondition,
          "[Slurm] {} tasks on a node with {} GPUs each need {}, but gpus_per_node is {}", tasks,
          share, int64_t{share} * tasks, gpus);
  }
  return share;
}

std::string block_of_gpus(const std::vector<std::string>& gpus, int share, int place) {
  const auto first = gpus.begin() + place * share;
  return fmt::format("{}", fmt::join(first, first + share, ","));
}

// Steps of one job may run at the same time.
std::optional<std::string> slurm_job() {
  const std::optional<std::string> job = internal::environment_variable("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  return *job + "." + internal::environment_variable("SLURM_STEP_ID").value_or("");
}

}  // namespace

struct SlurmClusterResolver::Asked {
  std::atomic<bool> yet = false;
};

SlurmClusterResolver::SlurmClusterResolver(const SlurmOptions& options)
    : asked_(std::make_shared<Asked>()) {
  const int rank = internal::require_number("SLURM_PROCID", kSlurm);
  std::map<std::string, int> jobs = options.jobs;
  if (jobs.empty()) jobs["worker"] = internal::require_number("SLURM_STEP_NUM_TASKS", kSlurm);
  const HostTasks hosts = tasks_on_hosts(options);
  const int most = most_tasks_per_host(hosts);
  const std::vector<std::string> gpus = gpus_of_node(options);
  gpus_per_task_ = share_of_gpus(options, static_cast<int>(gpus.size()), most);
  rpc_layer_ = options.rpc_layer;
  const int port_base = internal::job_port_base(options.port_base, slurm_job(), most);
  std::vector<std::string> addresses;
  for (const auto& [host, count] : hosts) {
    for (int place = 0; place < count; ++place) {
      const bool own = static_cast<int>(addresses.size()) == rank;
      if (own && options.auto_set_gpu && !gpus.empty()) {
        local_gpus_ = block_of_gpus(gpus, gpus_per_task_, place);
      }
      addresses.push_back(
          internal::address_text(host, internal::port_at(port_base, place, kSlurm)));
    }
  }
  deal({std::move(addresses), std::move(jobs), rank, kSlurm});
}

ClusterSpec SlurmClusterResolver::cluster_spec() const {
  if (local_gpus_) setenv("CUDA_VISIBLE_DEVICES", local_gpus_->c_str(), 1);
  asked_->yet.store(true);
  return RankedClusterResolver::cluster_spec();
}

std::optional<std::string> SlurmClusterResolver::task_type() const {
  return asked_->yet.load() ? RankedClusterResolver::task_type() : task_type_;
}

std::optional<int> SlurmClusterResolver::task_id() const {
  return asked_->yet.load() ? RankedClusterResolver::task_id() : task_id_;
}

std::map<std::string, int> SlurmClusterResolver::count_accelerators(const Request&) const {
  return {{"GPU", gpus_per_task_}};
}

}  // namespace cohort
