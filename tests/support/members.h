#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "collectives/communicator_access.h"
#include "collectives/engine.h"

namespace cohort {

// What a test's group is like.
struct GroupPlan {
  std::string name = {};
  bool share_memory = false;
  int members_per_host = 0;  // 0: all on one host
  std::optional<internal::Algorithm> algorithm = std::nullopt;
  std::chrono::milliseconds report_after{5000};
  internal::EngineChoice engine = {};
  std::chrono::milliseconds refusal_time{2000};
};

// That many ones.
inline Tensor ones_of(int64_t count) {
  return Tensor::from(std::vector<float>(static_cast<size_t>(count), 1.f));
}

// Runs `body` as each member of a group at the same time, and returns what each threw.
inline std::vector<Status> run_members(int size, const std::function<void(int rank)>& body) {
  std::vector<Status> statuses(static_cast<size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(
        [&, rank] { statuses[static_cast<size_t>(rank)] = capture_status([&] { body(rank); }); });
  }
  threads.clear();
  return statuses;
}

// Which members share memory, by rank.
inline std::vector<std::string> hosts_of(const GroupPlan& plan, size_t size) {
  std::vector<std::string> hosts(size, plan.share_memory ? "host" : "");
  for (size_t rank = 0; plan.members_per_host > 0 && rank < size; ++rank) {
    hosts[rank] = "host " + std::to_string(rank / static_cast<size_t>(plan.members_per_host));
  }
  return hosts;
}

// The communicators of the members, by rank.
inline std::vector<Communicator> make_group(std::vector<internal::Group> members,
                                            const GroupPlan& plan) {
  std::vector<Communicator> group(members.size());
  const auto statuses = run_members(static_cast<int>(members.size()), [&](int rank) {
    const internal::GroupSettings settings{.report_after = plan.report_after,
                                           .refusal_time = plan.refusal_time,
                                           .engine = plan.engine};
    internal::Group& member = members[static_cast<size_t>(rank)];
    member.hosts = hosts_of(plan, members.size());
    auto& made = group[static_cast<size_t>(rank)];
    made = internal::make_communicator(std::move(member), settings);
    if (plan.algorithm) {
      internal::CollectiveAccess::group(made).engine().table = {{{SIZE_MAX, *plan.algorithm}}};
    }
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  return group;
}

// The same inside this process.
inline std::vector<Communicator> make_group(int size, const GroupPlan& plan = {}) {
  std::vector<internal::Peer> peers;
  for (int rank = 0; rank < size; ++rank) peers.push_back({.name = "task " + std::to_string(rank)});
  return make_group(internal::in_process_groups(peers), plan);
}

// Runs `body` with each of the members at the same time; none may throw.
inline void on_each(std::vector<Communicator>& group,
                    const std::function<void(Communicator&)>& body) {
  const auto statuses = run_members(static_cast<int>(group.size()),
                                    [&](int rank) { body(group[static_cast<size_t>(rank)]); });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace cohort
