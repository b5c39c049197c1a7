#include "train_loop/hooked_run.h"

#include <algorithm>

#include "base/raise.h"
#include "tensor/body.h"

namespace cohort::internal {
namespace {

// Feeds by the identity of their tensors.
void add_feeds(Feeds& all, const Feeds& more) {
  for (const Feed& feed : more) {
    const bool taken = std::any_of(all.begin(), all.end(), [&](const Feed& other) {
      return &body(other.tensor) == &body(feed.tensor);
    });
    if (taken) {
      raise(Code::InvalidArgument,
            "[MonitoredSession] {} is fed by a hook, and by another hook or the caller as well",
            feed.tensor.to_string());
    }
    all.push_back(feed);
  }
}

RunOptions merged(const RunOptions& a, const RunOptions& b) {
  return {.timeout = std::max(a.timeout, b.timeout), .trace = a.trace || b.trace};
}

std::vector<Tensor> part(const std::vector<Tensor>& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

}  // namespace

HookedRun run_with_hooks(Session& session, const Hooks& hooks, const std::vector<Tensor>& fetches,
                         const Feeds& feeds, const RunOptions& options, RunMetadata* metadata) {
  SessionRunContext context(fetches, feeds, session);
  std::vector<Tensor> all_fetches = fetches;
  Feeds all_feeds = feeds;
  RunOptions all_options = options;
  std::vector<size_t> counts;  // fetches of each hook
  for (const auto& hook : hooks) {
    const SessionRunArgs wanted = hook->before_run(context);
    all_fetches.insert(all_fetches.end(), wanted.fetches.begin(), wanted.fetches.end());
    add_feeds(all_feeds, wanted.feeds);
    all_options = merged(all_options, wanted.options);
    counts.push_back(wanted.fetches.size());
  }
  RunMetadata recorded;
  const std::vector<Tensor> values = session.run(all_fetches, all_feeds, all_options, &recorded);
  if (metadata != nullptr) *metadata = recorded;
  size_t next = fetches.size();
  for (size_t i = 0; i < hooks.size(); ++i) {
    hooks[i]->after_run(context, {part(values, next, counts[i]), all_options, recorded});
    next += counts[i];
  }
  return {part(values, 0, fetches.size()), context.stop_requested()};
}

}  // namespace cohort::internal
