#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/raise.h"
#include "base/thread.h"
#include "base/time_limit.h"
#include "collectives/communicator_access.h"
#include "collectives/engine.h"
#include "collectives/tensor_collectives.h"

namespace cohort {

using internal::Call;
using internal::CallKind;
using internal::CollectiveAccess;
using internal::CollectiveGroup;

namespace {

Communicator open(const CollectiveGroup& parent, uint64_t id, const std::vector<int>& ranks,
                  const CommunicationOptions& options) {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(parent.members()[static_cast<size_t>(rank)]);
  internal::GroupSettings settings = parent.settings();
  settings.meeting_time =
      internal::endless_if_zero(options.timeout).value_or(settings.meeting_time);
  return CollectiveAccess::make(
      CollectiveGroup::open(parent.links(), id, std::move(members), settings));
}

}  // namespace

Communicator Communicator::split(int colour, int key, const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  const internal::Deadline deadline =
      internal::or_refuse(group, [&] { return internal::deadline_of(options); });
  Call call{.kind = CallKind::Split, .number = group.next_number(), .deadline = deadline};
  std::vector<std::array<int32_t, 2>> all(static_cast<size_t>(group.size()));
  const std::array<int32_t, 2> own{colour, key};
  group.run(call, [&] {
    const internal::Buffer sent = internal::copy_of(std::as_bytes(std::span(own)));
    group.engine().all_gather(call, sent, [&](std::span<const size_t>) {
      return reinterpret_cast<std::byte*>(all.data());
    });
  });
  std::vector<int> ranks;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (all[static_cast<size_t>(rank)][0] == colour) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)][1] < all[static_cast<size_t>(b)][1];
  });
  const uint64_t id =
      internal::mix(internal::mix(group.id(), call.number), static_cast<uint32_t>(colour));
  return open(group, id, ranks, options);
}

Communicator Communicator::subgroup(const std::vector<int>& ranks,
                                    const CommunicationOptions& options) {
  CollectiveGroup& group = CollectiveAccess::group(*this);
  check(options);
  const std::set<int> different(ranks.begin(), ranks.end());
  const bool in_range =
      !ranks.empty() && *different.begin() >= 0 && *different.rbegin() < group.size();
  if (!in_range || different.size() != ranks.size() || !different.contains(group.rank())) {
    internal::raise(Code::InvalidArgument,
                    "[Subgroup] needs different ranks from 0 to {}, including {}; got {}",
                    group.size() - 1, group.rank(), fmt::join(ranks, ", "));
  }
  uint64_t id = internal::mix(group.id() + 1, group.count_subgroup(ranks));
  for (const int rank : ranks) id = internal::mix(id, static_cast<uint64_t>(rank));
  return open(group, id, ranks, options);
}

Communicator internal::make_background_group(const Communicator& members) {
  CollectiveGroup& group = CollectiveAccess::group(members);
  GroupSettings settings = group.settings();
  settings.report_after = std::chrono::hours(24 * 365);
  const uint64_t id = mix(mix(group.id() + 1, 1), group.count_subgroup(group.members()));
  return CollectiveAccess::make(
      CollectiveGroup::open(group.links(), id, group.members(), settings));
}

std::vector<Communicator> make_local_group(int size) {
  if (size < 1) {
    internal::raise(Code::InvalidArgument,
                    "[Communicator] a group must have at least 1 member, got {}", size);
  }
  std::vector<internal::Peer> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back({.name = fmt::format("/job:local/replica:0/task:{}", rank)});
  }
  const auto all = internal::in_process_groups(members);
  std::vector<Communicator> group(all.size());
  std::vector<Status> statuses(all.size());
  {
    std::vector<internal::Thread> threads;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      threads.emplace_back("rendezvous", [&, rank](const std::stop_token&) {
        statuses[rank] =
            capture_status([&] { group[rank] = internal::make_communicator(all[rank]); });
      });
    }
  }
  for (const Status& status : statuses) throw_if_error(status);
  return group;
}

}  // namespace cohort
