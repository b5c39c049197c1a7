#include "cohort/session.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/raise.h"
#include "graph/run_request.h"
#include "runtime/session_impl.h"

namespace cohort {
namespace {

// "host:port" of a target that names a server, with or without the scheme.
std::optional<std::string_view> address_of(std::string_view target) {
  constexpr std::string_view kScheme = "grpc://";
  const std::string_view address =
      target.starts_with(kScheme) ? target.substr(kScheme.size()) : target;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 ||
      address.find_first_of("/ ") != std::string_view::npos) {
    return std::nullopt;
  }
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port < 0 || port > 65535) return std::nullopt;
  return address;
}

// Names of nodes may have a backslash, and nothing else that JSON would mind.
std::string json_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::shared_ptr<internal::SessionImpl> open(const Graph& graph, std::string_view target,
                                            const SessionOptions& options) {
  const std::shared_ptr<internal::GraphImpl>& nodes = internal::GraphAccess::impl(graph);
  if (target.empty()) return internal::open_local_session(nodes, options);
  if (const auto address = address_of(target)) {
    return internal::open_remote_session(nodes, std::string(*address), options);
  }
  internal::raise(Code::NotFound,
                  "[Session] nothing serves target '{}'; use \"grpc://host:port\" for a server, "
                  "or \"\" to run in this process",
                  target);
}

}  // namespace

Session::Session(std::string_view target, const SessionOptions& options)
    : Session(get_default_graph(), target, options) {}

Session::Session(const Graph& graph, std::string_view target, const SessionOptions& options)
    : impl_(open(graph, target, options)) {}

Session::~Session() { impl_->close(); }

Tensor Session::run(const Tensor& fetch, const Feeds& feeds, const RunOptions& options,
                    RunMetadata* metadata) {
  return impl_->run({fetch}, feeds, options, metadata)[0];
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                 const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(fetches, feeds, options, metadata);
}

std::vector<Tensor> Session::run(std::initializer_list<Tensor> fetches, const Feeds& feeds,
                                 const RunOptions& options, RunMetadata* metadata) {
  return impl_->run(std::vector<Tensor>(fetches), feeds, options, metadata);
}

std::map<std::string, Tensor> Session::run(const std::map<std::string, Tensor>& fetches,
                                           const Feeds& feeds, const RunOptions& options,
                                           RunMetadata* metadata) {
  return internal::run_by_name(fetches, [&](const std::vector<Tensor>& tensors) {
    return impl_->run(tensors, feeds, options, metadata);
  });
}

Callable Session::make_callable(const std::vector<Tensor>& feeds,
                                const std::vector<Tensor>& fetches) {
  return {impl_, impl_->make_callable(feeds, fetches)};
}

PartialRun::PartialRun(std::shared_ptr<internal::PartialRunState> state)
    : state_(std::move(state)) {}

PartialRun Session::partial_run_setup(const std::vector<Tensor>& fetches,
                                      const std::vector<Tensor>& feeds) {
  return PartialRun(impl_->partial_run_setup(fetches, feeds));
}

Tensor Session::partial_run(const PartialRun& run, const Tensor& fetch, const Feeds& feeds) {
  return impl_->partial_run(*run.state_, {fetch}, feeds)[0];
}

std::vector<Tensor> Session::partial_run(const PartialRun& run, const std::vector<Tensor>& fetches,
                                         const Feeds& feeds) {
  return impl_->partial_run(*run.state_, fetches, feeds);
}

std::vector<Tensor> Session::partial_run(const PartialRun& run,
                                         std::initializer_list<Tensor> fetches,
                                         const Feeds& feeds) {
  return impl_->partial_run(*run.state_, std::vector<Tensor>(fetches), feeds);
}

std::vector<std::string> Session::list_devices() const { return impl_->list_devices(); }
void Session::close() { impl_->close(); }

Callable::Callable(std::shared_ptr<internal::SessionImpl> session,
                   std::shared_ptr<const internal::PreparedCall> call)
    : session_(std::move(session)), call_(std::move(call)) {}

std::vector<Tensor> Callable::operator()(const std::vector<Tensor>& feed_values) const {
  return session_->run_callable(*call_, feed_values);
}

std::string RunMetadata::to_chrome_trace() const {
  std::map<std::string, int> rows;
  std::string events;
  for (const NodeTiming& timing : nodes) {
    const int row = rows.emplace(timing.device, static_cast<int>(rows.size())).first->second;
    events += fmt::format(
        "{}{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":0,"
        "\"tid\":{},\"args\":{{\"output_bytes\":{}}}}}",
        events.empty() ? "" : ",\n", json_text(timing.node), timing.op,
        static_cast<double>(timing.start.count()) / 1e3,
        static_cast<double>(timing.duration.count()) / 1e3, row, timing.output_bytes);
  }
  for (const auto& [device, row] : rows) {
    events += fmt::format(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":{},\"args\":{{\"name\":\"{}"
        "\"}}}}",
        row, device);
  }
  return "{\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace cohort
