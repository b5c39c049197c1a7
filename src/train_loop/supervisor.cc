#include "cohort/supervisor.h"

#include <filesystem>

#include "base/exceptions.h"
#include "base/log.h"
#include "base/raise.h"
#include "tensor/devices.h"
#include "train_loop/check_devices.h"
#include "train_loop/default_ops.h"
#include "train_loop/global_step.h"

namespace cohort {
namespace {

using internal::capture_exception;
using internal::raise;
using internal::rethrow_if_any;

// The options with everything made that was not given.
SupervisorOptions completed(SupervisorOptions options) {
  if (internal::device_scope_depth() > 0) {
    raise(Code::FailedPrecondition,
          "[Supervisor] it is made inside a device(...) scope, which would place what it adds to "
          "the graph; move it out of the scope");
  }
  if (!options.graph) options.graph = get_default_graph();
  if (!options.is_chief) internal::require_devices_of_variables(*options.graph);
  const auto building = options.graph->as_default();
  internal::DefaultOps made{options.init_op, options.local_init_op, options.ready_op,
                            options.ready_for_local_init_op};
  made.make_missing();
  options.init_op = made.init_op;
  options.local_init_op = made.local_init_op;
  options.ready_op = made.ready_op;
  options.ready_for_local_init_op = made.ready_for_local_init_op;
  const bool saves = options.is_chief && !options.logdir.empty();
  if (saves && !options.saver) options.saver = make_session_saver();
  if (options.saver) options.saver->prepare_graph();
  return options;
}

Tensor step_reader(const Graph& graph) {
  auto building = Graph(graph).as_default();
  const std::optional<Variable> step = find_global_step();
  return step ? step->read_value() : Tensor();
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options)
    : options_(completed(options)),
      graph_(*options_.graph),
      global_step_(step_reader(graph_)),
      manager_({.graph = graph_,
                .ready_op = options_.ready_op,
                .ready_for_local_init_op = options_.ready_for_local_init_op,
                .local_init_op = options_.local_init_op,
                .recovery_wait = options_.recovery_wait}) {
  for (const auto& [tag, scalar] : options_.summaries) {
    summary_tags_.push_back(tag);
    summary_fetches_.push_back(scalar);
  }
}

void Supervisor::require_chief(std::string_view what) const {
  if (options_.is_chief) return;
  raise(Code::FailedPrecondition, "[Supervisor] only the chief may {}", what);
}

std::unique_ptr<Session> Supervisor::prepare_or_wait_for_session(
    const std::string& target, const SupervisedSessionOptions& options) {
  coordinator_.clear_stop();
  std::unique_ptr<Session> session;
  if (options_.is_chief) {
    session = manager_.prepare_session(target,
                                       {.init_op = options_.init_op,
                                        .init_feeds = options_.init_feeds,
                                        .init_fn = options_.init_fn},
                                       {.saver = options_.saver,
                                        .checkpoint_dir = options_.logdir,
                                        .wait_for_checkpoint = options.wait_for_checkpoint,
                                        .max_wait = options.max_wait,
                                        .config = options.config});
    if (options.start_standard_services) start_standard_services(*session);
  } else {
    session =
        manager_.wait_for_session(target, {.max_wait = options.max_wait, .config = options.config});
  }
  if (options.start_standard_services) start_queue_runners(*session);
  return session;
}

void Supervisor::save(Session& session) {
  const int64_t step = global_step_.defined() ? internal::step_now(session, global_step_) : 0;
  const std::filesystem::path folder(options_.logdir);
  options_.saver->save(session, (folder / options_.checkpoint_basename).string(), step);
}

void Supervisor::write_summaries(Session& session) {
  const std::vector<Tensor> values = session.run(summary_fetches_);
  std::map<std::string, double> scalars;
  for (size_t i = 0; i < values.size(); ++i) scalars[summary_tags_[i]] = values[i].to<double>();
  summary_computed(session, scalars);
}

CoordinatedThreads Supervisor::start_standard_services(Session& session) {
  require_chief("start the standard services");
  CoordinatedThreads threads;
  const bool saves = options_.saver && !options_.logdir.empty();
  if (saves && options_.save_model_interval.count() > 0) {
    threads.push_back(coordinator_.start_loop("checkpoints", options_.save_model_interval,
                                              [this, &session] { save(session); }));
  }
  const bool summarises = options_.summary_writer && !summary_fetches_.empty();
  if (summarises && options_.save_summaries_interval.count() > 0) {
    threads.push_back(coordinator_.start_loop("summaries", options_.save_summaries_interval,
                                              [this, &session] { write_summaries(session); }));
  }
  if (options_.logdir.empty()) {
    internal::log_info("[Supervisor] without a logdir there are no checkpoints");
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
  require_chief("write summaries");
  if (!options_.summary_writer) {
    raise(Code::FailedPrecondition, "[Supervisor] writing a summary needs a .summary_writer");
  }
  const int64_t step = global_step_.defined() ? internal::step_now(session, global_step_) : 0;
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
  const bool saves = options_.is_chief && options_.saver && !options_.logdir.empty();
  const std::exception_ptr saved = capture_exception([&] {
    if (stopped == nullptr && session && saves) save(*session);
  });
  if (session) session->close();
  rethrow_if_any(stopped);
  rethrow_if_any(saved);
}

}  // namespace cohort
