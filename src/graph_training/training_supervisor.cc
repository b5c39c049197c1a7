#include <filesystem>

#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "cohort/supervisor.h"
#include "graph/graph_impl.h"
#include "graph_training/session_setup.h"
#include "ops/all_ops.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

using internal::capture_exception;
using internal::given_time_limit;
using internal::raise;
using internal::rethrow_if_any;

void require_devices_of_variables(const Graph& graph) {
  const auto& impl = internal::GraphAccess::impl(graph);
  for (int id = 0; id < impl->size(); ++id) {
    const internal::Node& node = impl->node(id);
    if (node.op != &internal::kVariableHandle) continue;
    if (internal::device_asked_for(*impl, id) != DeviceName()) continue;
    raise(Code::InvalidArgument,
          "[Supervisor] When using replicas, all Variables must have their device set: '{}' has "
          "none, so that each replica would have its own; make it inside "
          "device(replica_device_setter(...))",
          node.name);
  }
}

bool saves(const SupervisorOptions& options) {
  return options.is_chief && options.saver && !options.logdir.empty();
}

// The options with the graph, the ops and the saver that were not given.
SupervisorOptions completed(SupervisorOptions options, Site site) {
  constexpr std::string_view kRemedy = "leave it empty for no such thread";
  options.save_model_interval =
      given_time_limit("Supervisor", "save_model_interval", options.save_model_interval, kRemedy);
  options.save_summaries_interval = given_time_limit("Supervisor", "save_summaries_interval",
                                                     options.save_summaries_interval, kRemedy);
  if (internal::device_scope_depth() > 0) {
    raise(Code::FailedPrecondition,
          "[Supervisor] the Supervisor is made inside a device(...) scope, which would place the "
          "nodes of the Supervisor; move it out of the scope");
  }
  if (!options.graph) options.graph = get_default_graph();
  if (!options.is_chief) require_devices_of_variables(*options.graph);
  const auto building = options.graph->as_default();
  if (options.is_chief && !options.logdir.empty() && !options.saver) {
    options.saver = make_session_saver({}, site);
  }
  internal::make_missing_ops(options, site);
  return options;
}

Tensor step_reader(const Graph& graph, Site site) {
  auto building = Graph(graph).as_default();
  const std::optional<Variable> step = find_global_step();
  return step ? step->read_value(site) : Tensor();
}

// 0 in a graph without a global step.
int64_t step_or_zero(Session& session, const Tensor& global_step) {
  return global_step.defined() ? session.run(global_step).to<int64_t>() : 0;
}

void require_chief(const SupervisorOptions& options, std::string_view what) {
  if (options.is_chief) return;
  raise(Code::FailedPrecondition, "[Supervisor] only the chief may {}", what);
}

void save(const SupervisorOptions& options, const Tensor& global_step, Session& session) {
  const std::filesystem::path directory(options.logdir);
  options.saver->save(session, (directory / options.checkpoint_basename).string(),
                      step_or_zero(session, global_step));
}

void write_summaries(Supervisor& supervisor, Session& session) {
  const std::map<std::string, Tensor>& summaries = supervisor.options().summaries;
  std::vector<Tensor> fetches;
  for (const auto& [tag, scalar] : summaries) fetches.push_back(scalar);
  const std::vector<Tensor> values = session.run(fetches);
  std::map<std::string, double> scalars;
  auto value = values.begin();
  for (const auto& [tag, scalar] : summaries) scalars[tag] = (value++)->to<double>();
  supervisor.summary_computed(session, scalars);
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options, Site site)
    : options_(completed(options, site)),
      graph_(*options_.graph),
      global_step_(step_reader(graph_, site)),
      manager_(internal::manager_for(options_, graph_, options_.recovery_wait)) {}

std::unique_ptr<Session> Supervisor::prepare_or_wait_for_session(
    const std::string& target, const SupervisedSessionOptions& options) {
  coordinator_.clear_stop();
  std::unique_ptr<Session> session;
  if (options_.is_chief) {
    session = manager_->prepare_session(target, internal::init_options(options_),
                                        {.saver = options_.saver,
                                         .checkpoint_dir = options_.logdir,
                                         .wait_for_checkpoint = options.wait_for_checkpoint,
                                         .max_wait = options.max_wait,
                                         .config = options.config});
    if (options.start_standard_services) start_standard_services(*session);
  } else {
    session = manager_->wait_for_session(target,
                                         {.max_wait = options.max_wait, .config = options.config});
  }
  if (options.start_standard_services) start_queue_runners(*session);
  return session;
}

CoordinatedThreads Supervisor::start_standard_services(Session& session) {
  require_chief(options_, "start the standard services");
  CoordinatedThreads threads;
  if (saves(options_) && options_.save_model_interval) {
    threads.push_back(
        coordinator_.start_loop("checkpoints", *options_.save_model_interval,
                                [this, &session] { save(options_, global_step_, session); }));
  }
  const bool summarises = options_.summary_writer && !options_.summaries.empty();
  if (summarises && options_.save_summaries_interval) {
    threads.push_back(
        coordinator_.start_loop("summaries", *options_.save_summaries_interval,
                                [this, &session] { write_summaries(*this, session); }));
  }
  if (options_.logdir.empty()) {
    internal::log_info("[Supervisor] no checkpoints are written without a logdir");
  }
  return threads;
}

CoordinatedThreads Supervisor::start_queue_runners(Session& session) {
  return cohort::start_queue_runners(graph_, session, coordinator_);
}

CoordinatedThreads Supervisor::start_queue_runners(Session& session,
                                                   const std::vector<QueueRunner>& runners) {
  return cohort::start_queue_runners(runners, session, coordinator_);
}

std::shared_ptr<CoordinatedThread> Supervisor::loop(std::chrono::milliseconds interval,
                                                    std::function<void()> body) {
  return coordinator_.start_loop("supervisor loop", interval, std::move(body));
}

void Supervisor::summary_computed(Session& session, const std::map<std::string, double>& scalars) {
  require_chief(options_, "write summaries");
  if (!options_.summary_writer) {
    raise(Code::FailedPrecondition, "[Supervisor] writing a summary needs a .summary_writer");
  }
  const int64_t step = step_or_zero(session, global_step_);
  for (const auto& [tag, value] : scalars) options_.summary_writer->add_scalar(tag, value, step);
}

void Supervisor::stop() {
  coordinator_.request_stop();
  const std::exception_ptr thrown = capture_exception(
      [&] { coordinator_.join({.stop_grace_period = options_.stop_grace_period}); });
  if (options_.summary_writer) options_.summary_writer->flush();
  rethrow_if_any(thrown);
}

void Supervisor::managed_session(const std::string& target,
                                 const std::function<void(Session&)>& body,
                                 const SupervisedSessionOptions& options) {
  std::unique_ptr<Session> session;
  coordinator_.clear_stop();
  coordinator_.stop_on_exception([&] {
    session = prepare_or_wait_for_session(target, options);
    body(*session);
  });
  const std::exception_ptr stopped = capture_exception([&] { stop(); });
  const std::exception_ptr saved = capture_exception([&] {
    if (stopped == nullptr && session && saves(options_)) {
      save(options_, global_step_, *session);
    }
  });
  if (session) session->close();
  rethrow_if_any(stopped);
  rethrow_if_any(saved);
}

}  // namespace cohort
