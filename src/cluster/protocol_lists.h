#pragma once

#include <concepts>
#include <tuple>

#include "cluster/protocol.h"

// What messages, and what is inside of them, consist of: one list of each, in the order of its
// fields, serves writing and reading.
namespace cohort::internal {

template <typename T, typename Of>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Of>;

auto fields(MaybeConst<ClusterDef::Task> auto& task) { return std::tie(task.index, task.address); }
auto fields(MaybeConst<ClusterDef::Job> auto& job) { return std::tie(job.name, job.tasks); }
auto fields(MaybeConst<SessionOptions> auto& o) {
  return std::tie(o.log_device_placement, o.allow_soft_placement, o.isolate_session_state,
                  o.enable_bfloat16_sendrecv, o.timeout, o.device_filters, o.cluster,
                  o.share_cluster_state);
}
auto fields(MaybeConst<OpenSession> auto& m) { return std::tie(m.options, m.client, m.graph); }
auto fields(MaybeConst<ExtendSession> auto& m) { return std::tie(m.session, m.version, m.graph); }
auto fields(MaybeConst<PrepareRun> auto& m) {
  return std::tie(m.session, m.feeds, m.fetches, m.over, m.limit);
}

auto fields(MaybeConst<PlanPart::Place> auto& place) {
  return std::tie(place.position, place.node, place.output);
}
auto fields(MaybeConst<PlanPart> auto& part) {
  return std::tie(part.device, part.graph, part.feeds, part.fetches, part.targets);
}
auto fields(MaybeConst<RegisterPlan::PeerTask> auto& peer) {
  return std::tie(peer.name, peer.incarnation, peer.address);
}
auto fields(MaybeConst<RegisterPlan::SentEdge> auto& sent) {
  return std::tie(sent.edge, sent.peer);
}
auto fields(MaybeConst<RegisterPlan> auto& m) {
  return std::tie(m.session, m.isolated, m.task, m.plan, m.num_edges, m.num_feeds, m.num_fetches,
                  m.ordered, m.peers, m.sends, m.sources, m.parts, m.limit);
}

auto fields(MaybeConst<NodeTiming> auto& t) {
  return std::tie(t.node, t.op, t.device, t.start, t.duration, t.output_bytes);
}
auto fields(MaybeConst<RunStep> auto& m) {
  return std::tie(m.session, m.call, m.run, m.limit, m.trace, m.feeds);
}
auto fields(MaybeConst<StepDone> auto& m) {
  return std::tie(m.call, m.status, m.fetches, m.timings);
}
auto fields(MaybeConst<Release> auto& m) { return std::tie(m.session, m.plan); }
auto fields(MaybeConst<CancelStep> auto& m) { return std::tie(m.session, m.call); }
auto fields(MaybeConst<RunPlan> auto& m) {
  return std::tie(m.session, m.plan, m.step, m.number, m.trace, m.feeds);
}
auto fields(MaybeConst<StepTensors> auto& m) {
  return std::tie(m.session, m.plan, m.step, m.edges, m.tensors);
}
auto fields(MaybeConst<PlanDone> auto& m) {
  return std::tie(m.session, m.step, m.status, m.fetches, m.timings, m.last_tensors);
}
auto fields(MaybeConst<AbortPlan> auto& m) { return std::tie(m.session, m.plan, m.step, m.status); }
auto fields(MaybeConst<Answer> auto& m) {
  return std::tie(m.request, m.status, m.numbers, m.texts);
}

}  // namespace cohort::internal
