#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "cli/captured_output.h"
#include "cli/doctor.h"
#include "cli/memory_group.h"
#include "cli/run_folder.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

constexpr auto kProductLimit = std::chrono::seconds(30);
constexpr double kSlowProduct = 5;  // billions of operations per second; without a BLAS it is 1

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  }
  return text;
}

// The addresses that a name stands for.
std::set<std::string> addresses_of(const std::string& host) {
  const addrinfo wanted{.ai_flags = 0,
                        .ai_family = AF_UNSPEC,
                        .ai_socktype = SOCK_STREAM,
                        .ai_protocol = 0,
                        .ai_addrlen = 0,
                        .ai_addr = nullptr,
                        .ai_canonname = nullptr,
                        .ai_next = nullptr};
  addrinfo* first = nullptr;
  std::set<std::string> found;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &first) != 0) return found;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(first, &freeaddrinfo);
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) {
    found.insert(text_of(at->ai_addr));
  }
  return found;
}

// Of this machine's interfaces that are up: address -> interface.
std::map<std::string, std::string> interfaces() {
  std::map<std::string, std::string> found;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const std::string address = text_of(at->ifa_addr);
    if (!address.empty()) found[address] = at->ifa_name;
  }
  return found;
}

void examine_threads(const Tell& tell) {
  const unsigned cores = std::thread::hardware_concurrency();
  const char* const set = std::getenv("OMP_NUM_THREADS");
  if (set == nullptr) {
    tell(Finding::Good, "cores", fmt::format("{}; OMP_NUM_THREADS is not set", cores));
  } else if (std::atoi(set) > static_cast<int>(cores)) {
    tell(Finding::Remark, "cores",
         fmt::format("{}, but OMP_NUM_THREADS is {}: more threads than cores are slower", cores,
                     set));
  } else {
    tell(Finding::Good, "cores", fmt::format("{}; OMP_NUM_THREADS is {}", cores, set));
  }
}

void examine_product(const Tell& tell) {
  const std::string program = companion_file("cohort-compute");
  const std::string text =
      program.empty() ? "" : captured_output({program, "product"}, kProductLimit);
  const double speed = std::atof(text.c_str());
  if (speed <= 0) {
    tell(Finding::Bad, "arithmetic", "cohort-compute, which loads LibTorch, does not run here");
    return;
  }
  const std::string told =
      fmt::format("a matrix product on one core: {:.1f} billion operations per second", speed);
  if (speed >= kSlowProduct) return tell(Finding::Good, "arithmetic", told);
  tell(Finding::Remark, "arithmetic",
       told + "; that is slow. Is OpenBLAS the system's BLAS? (update-alternatives)");
}

void examine_memory(const Tell& tell) {
  const MemoryGroup group;
  if (const auto limit = group.limit_bytes()) {
    tell(Finding::Good, "memory", fmt::format("limited to {} MB", *limit >> 20));
  } else {
    tell(Finding::Good, "memory", "not limited by a group of processes");
  }
}

void examine_host(const std::string& host, bool spans_hosts, const Tell& tell) {
  const std::set<std::string> addresses = addresses_of(host);
  if (addresses.empty()) {
    return tell(Finding::Bad, "names",
                fmt::format("'{}' has no address: is it spelled right?", host));
  }
  const bool loopback =
      std::any_of(addresses.begin(), addresses.end(),
                  [](const std::string& text) { return internal::is_loopback(text); });
  if (spans_hosts && loopback) {
    return tell(Finding::Bad, "names",
                fmt::format("'{}' is {} here, which other machines do not reach; see /etc/hosts",
                            host, fmt::join(addresses, ", ")));
  }
  tell(Finding::Good, "names", fmt::format("'{}' is {}", host, fmt::join(addresses, ", ")));
}

// On which interface this task listens.
void examine_own_host(const std::string& host, const Tell& tell) {
  const auto here = interfaces();
  for (const std::string& address : addresses_of(host)) {
    // All of these are the loopback interface's, though it lists but one.
    const auto found = here.find(address.starts_with("127.") ? "127.0.0.1" : address);
    if (found != here.end()) {
      return tell(Finding::Good, "interface", fmt::format("{} ({})", found->second, address));
    }
  }
  std::string all;
  for (const auto& [address, name] : here) all += fmt::format(" {} ({})", address, name);
  tell(Finding::Bad, "interface",
       fmt::format("this task is to listen at '{}', which is none of this machine's addresses:{}",
                   host, all));
}

// Two tasks at one address are one task, to all others.
void examine_addresses(const ClusterSpec& cluster, const Tell& tell) {
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
    tell(Finding::Bad, "names",
         fmt::format("{} have the same address, {}", fmt::join(labels, " and "), address));
  }
}

}  // namespace

void examine_machine(const Tell& tell) {
  tell(Finding::Good, "version", COHORT_VERSION);
  examine_threads(tell);
  examine_memory(tell);
  examine_product(tell);
}

void examine_names(const DoctorCluster& cluster, const Tell& tell) {
  examine_addresses(cluster.cluster, tell);
  std::set<std::string> hosts;
  for (const std::string& job : cluster.cluster.jobs()) {
    for (const int index : cluster.cluster.task_indices(job)) {
      hosts.insert(internal::parse_address(cluster.cluster.task_address(job, index)).host);
    }
  }
  const bool spans = internal::spans_hosts(cluster.cluster) && hosts.size() > 1;
  for (const std::string& host : hosts) examine_host(host, spans, tell);
  if (!cluster.self) return;
  const TaskId& self = *cluster.self;
  examine_own_host(internal::parse_address(cluster.cluster.task_address(self.job, self.index)).host,
                   tell);
}

}  // namespace cohort::cli
