#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "cli/doctor.h"
#include "launch/child_process.h"
#include "launch/local_network.h"
#include "launch/process_state.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

constexpr auto kProductLimit = std::chrono::seconds(30);
constexpr double kSlowProduct = 5;  // billions of operations per second; without a BLAS it is 1

void examine_threads(const Report& report) {
  const unsigned cores = std::thread::hardware_concurrency();
  const char* const set = std::getenv("OMP_NUM_THREADS");
  if (set == nullptr) {
    report(Finding::Good, "cores", fmt::format("{}; OMP_NUM_THREADS is not set", cores));
  } else if (std::atoi(set) > static_cast<int>(cores)) {
    report(Finding::Remark, "cores",
           fmt::format("{}, but OMP_NUM_THREADS is {}: more threads than cores are slower", cores,
                       set));
  } else {
    report(Finding::Good, "cores", fmt::format("{}; OMP_NUM_THREADS is {}", cores, set));
  }
}

void examine_product(const Report& report) {
  const std::string program = helper_file("cohort-compute");
  const std::string output =
      program.empty() ? "" : captured_output({program, "product"}, kProductLimit);
  const double speed = std::atof(output.c_str());
  if (speed <= 0) {
    report(Finding::Bad, "arithmetic", "cohort-compute, which loads LibTorch, does not run here");
    return;
  }
  const std::string text =
      fmt::format("a matrix product on one core: {:.1f} billion operations per second", speed);
  if (speed >= kSlowProduct) return report(Finding::Good, "arithmetic", text);
  report(Finding::Remark, "arithmetic",
         text + "; that is slow. Is OpenBLAS the system's BLAS? (update-alternatives)");
}

void examine_memory(const Report& report) {
  const MemoryCgroup group;
  if (const auto limit = group.limit_bytes()) {
    report(Finding::Good, "memory", fmt::format("limited to {} MB", *limit >> 20));
  } else {
    report(Finding::Good, "memory", "not limited by a group of processes");
  }
}

void examine_host(const std::string& host, bool spans_hosts, const Report& report) {
  const std::set<std::string> addresses = addresses_of(host);
  if (addresses.empty()) {
    return report(Finding::Bad, "names",
                  fmt::format("'{}' has no address: is it spelled right?", host));
  }
  const bool loopback =
      std::any_of(addresses.begin(), addresses.end(),
                  [](const std::string& text) { return internal::is_loopback(text); });
  if (spans_hosts && loopback) {
    return report(Finding::Bad, "names",
                  fmt::format("'{}' is {} here, which other machines do not reach; see /etc/hosts",
                              host, fmt::join(addresses, ", ")));
  }
  report(Finding::Good, "names", fmt::format("'{}' is {}", host, fmt::join(addresses, ", ")));
}

// Reports the interface on which this task listens.
void examine_own_host(const std::string& host, const Report& report) {
  const auto here = local_interfaces();
  for (const std::string& address : addresses_of(host)) {
    // The loopback interface has all of these addresses, but lists only one.
    const auto found = here.find(address.starts_with("127.") ? "127.0.0.1" : address);
    if (found != here.end()) {
      return report(Finding::Good, "interface", fmt::format("{} ({})", found->second, address));
    }
  }
  std::string all;
  for (const auto& [address, name] : here) all += fmt::format(" {} ({})", address, name);
  report(Finding::Bad, "interface",
         fmt::format("this task is to listen at '{}', which is not an address of this machine:{}",
                     host, all));
}

// Two tasks with one address would be one task for the others.
void examine_addresses(const ClusterSpec& cluster, const Report& report) {
  std::map<std::string, std::vector<std::string>> by_address;
  for (const std::string& job : cluster.jobs()) {
    for (const int index : cluster.task_indices(job)) {
      const std::string address = cluster.task_address(job, index);
      if (internal::parse_address(address).port != 0) {
        by_address[address].push_back(label_of({job, index}));
      }
    }
  }
  for (const auto& [address, labels] : by_address) {
    if (labels.size() == 1) continue;
    report(Finding::Bad, "names",
           fmt::format("{} have the same address, {}", fmt::join(labels, " and "), address));
  }
}

}  // namespace

void examine_machine(const Report& report) {
  report(Finding::Good, "version", COHORT_VERSION);
  examine_threads(report);
  examine_memory(report);
  examine_product(report);
}

void examine_names(const DoctorCluster& cluster, const Report& report) {
  examine_addresses(cluster.cluster, report);
  std::set<std::string> hosts;
  for (const std::string& job : cluster.cluster.jobs()) {
    for (const int index : cluster.cluster.task_indices(job)) {
      hosts.insert(internal::parse_address(cluster.cluster.task_address(job, index)).host);
    }
  }
  const bool spans = internal::spans_hosts(cluster.cluster) && hosts.size() > 1;
  for (const std::string& host : hosts) examine_host(host, spans, report);
  if (!cluster.self) return;
  const TaskId& self = *cluster.self;
  examine_own_host(internal::parse_address(cluster.cluster.task_address(self.job, self.index)).host,
                   report);
}

}  // namespace cohort::cli
