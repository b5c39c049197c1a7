#include <fmt/format.h>

#include <ostream>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/strategy.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/replica_rendezvous.h"
#include "graph/tracing.h"
#include "ops/dispatch.h"

namespace cohort {

namespace {

// What one replica adds to a graph of its own runs later, without the code that would merge.
void check_can_merge(const internal::ReplicaRendezvous& rendezvous) {
  const internal::GraphBuilder* graph = internal::thread_dispatch().builder;
  if (graph == nullptr || graph == rendezvous.shared_graph()) return;
  throw internal::Untraceable(
      Code::Unimplemented,
      "[merge_call] cannot be part of a graph that a replica builds by itself; build it around "
      "run() instead, or use all_reduce()");
}

}  // namespace

ReplicaContext::ReplicaContext(Strategy& strategy, int replica_id_in_sync_group,
                               size_t local_replica, internal::ReplicaRendezvous* rendezvous)
    : strategy_(strategy),
      id_(replica_id_in_sync_group),
      local_(local_replica),
      rendezvous_(rendezvous) {}

int ReplicaContext::num_replicas_in_sync() const { return strategy_.num_replicas_in_sync(); }

std::vector<std::string> ReplicaContext::devices() const {
  check_current("ReplicaContext.devices");
  return {internal::current_device().full_name};
}

void ReplicaContext::check_current(std::string_view what) const {
  internal::require_replica(*this, what);
}

void ReplicaContext::merge(const std::type_info& kind, void* own,
                           const std::function<void(std::span<void* const>)>& body) {
  check_current("merge_call");
  const internal::Mode* mode = internal::current_mode();
  const internal::Device* around = mode != nullptr ? mode->around : nullptr;
  const auto once = [&](std::span<void* const> owns) {
    const internal::ModeScope cross({&strategy_, nullptr});
    std::optional<DeviceScope> outside;
    if (around != nullptr) outside.emplace(around->full_name);
    body(owns);
  };
  if (rendezvous_ == nullptr) {
    once(std::span<void* const>(&own, 1));
  } else {
    check_can_merge(*rendezvous_);
    const internal::RecordingPause unheard;  // the other replicas' tapes hear nothing either
    rendezvous_->meet(local_, {"merge_call", kind.hash_code(), own}, once, nullptr);
  }
}

std::string ReplicaContext::to_string() const {
  return fmt::format(
      "ReplicaContext(strategy={}, replica_id_in_sync_group={}, num_replicas_in_sync={})",
      strategy_.extended().name(), id_, num_replicas_in_sync());
}

std::ostream& operator<<(std::ostream& out, const ReplicaContext& context) {
  return out << context.to_string();
}

}  // namespace cohort
