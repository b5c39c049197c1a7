#include "coordinator/released_state.h"

#include "base/log.h"
#include "coordinator/graph_nodes.h"

namespace cohort::internal {

bool StateReleaser::forget(const std::vector<std::string>& names, std::chrono::milliseconds limit) {
  if (names.empty()) return true;
  const Status status = capture_status([&] {
    if (!call_) {
      const NodeOutput given =
          add_placeholder(*graph_, "names", {kString, Shape{Shape::kUnknownDim}}, device_);
      const int forget = add_forget(*graph_, given, container_, device_);
      call_ = session_->make_callable({graph_->symbol(given)},
                                      {graph_->symbol(add_completion(*graph_, {forget}, device_))},
                                      limit);
    }
    session_->run_callable(*call_, {Tensor::from(names)}, {.timeout = limit});
  });
  if (!status.ok()) {
    log_debug("[Coordinator] {} has not released {} variables or iterators: {}",
              device_.split().first, names.size(), status.message);
  }
  return status.ok();
}

}  // namespace cohort::internal
