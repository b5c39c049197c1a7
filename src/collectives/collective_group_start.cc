#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "collectives/algorithms.h"
#include "collectives/call.h"
#include "collectives/collective_group.h"
#include "collectives/engine.h"
#include "collectives/shared_engine.h"

// How a group begins: its members connect and choose an engine.

namespace cohort::internal {
namespace {

// The members that the algorithms exchange most messages with: neighbours in the ring, and partners
// at the distances of powers of two. If a is a partner of b, b is one of a.
std::set<int> partners(int rank, int size) {
  std::set<int> result;
  for (int distance = 1; distance < size; distance *= 2) {
    result.insert((rank + distance) % size);
    result.insert((rank - distance + size) % size);
  }
  result.erase(rank);
  return result;
}

// Ranks by host, in the order of their first members.
std::vector<std::vector<int>> by_host(const CollectiveGroup& group) {
  std::vector<std::vector<int>> hosts;
  std::map<std::string, size_t> known;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::string& host = group.host_of(rank);
    const auto [found, is_new] = known.try_emplace(host, hosts.size());
    if (is_new || host.empty()) {
      hosts.push_back({rank});
    } else {
      hosts[found->second].push_back(rank);
    }
  }
  return hosts;
}

// Whether there are several hosts, and several members on one of them.
bool shares_some(const std::vector<std::vector<int>>& hosts) {
  return hosts.size() > 1 && std::any_of(hosts.begin(), hosts.end(),
                                         [](const auto& ranks) { return ranks.size() > 1; });
}

// Null if the members form a two-level engine, whose levels meet next.
std::unique_ptr<Engine> choose_engine(CollectiveGroup& group, const Call& call,
                                      const std::vector<std::vector<int>>& hosts) {
  const bool is_near = hosts.size() == 1;
  const bool is_alone = group.size() == 1;
  Exchange exchange(group, call);
  if (is_near && !is_alone) {
    const auto segment = share_segment(exchange, SharedEngine::segment_bytes(group.size()));
    if (segment) return std::make_unique<SharedEngine>(group, segment);
  } else {
    dissemination_barrier(exchange);
  }
  if (shares_some(hosts)) return nullptr;
  const EngineChoice& choice = group.settings().engine;
  if (choice.make && !is_alone) return choice.make(group, call);
  return make_message_engine(group, is_near ? Distance::SameHost : Distance::Network);
}

}  // namespace

void CollectiveGroup::meet() {
  const std::string& engine = settings_.engine.name;
  Call call{.kind = CallKind::Meet,
            .shape = {size()},
            .detail = fmt::format("{} members{}", size(),
                                  engine.empty() ? "" : " with the engine '" + engine + "'"),
            .number = next_number(),
            .deadline = deadline_after(settings_.meeting_time)};
  const std::vector<std::vector<int>> hosts = by_host(*this);
  run(call, [&] {
    for (const int rank : partners(rank_, size())) {
      const int member = members_[static_cast<size_t>(rank)];
      const Status status = capture_status([&] { links_->expect(member, call.deadline); });
      if (!status.ok() && links_->has_lost(member)) lost(member, status);
      throw_if_error(status);
    }
    engine_ = choose_engine(*this, call, hosts);
  });
  if (!engine_) engine_ = make_two_level_engine(*this, hosts);
  met_engine_ = engine_.get();
  log_info("[Collective] {} of {} has met the others; they use {}", describe(rank_), size(),
           engine_->kind());
}

}  // namespace cohort::internal
