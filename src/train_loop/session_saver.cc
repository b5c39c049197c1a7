#include <optional>

#include "base/raise.h"
#include "cohort/device.h"
#include "cohort/graph_variable.h"
#include "cohort/hooks.h"

namespace cohort {
namespace {

// A Saver that is made when the graph has all its variables.
class GraphSaver : public SessionSaver {
 public:
  explicit GraphSaver(const SaverOptions& options) : options_(options) {}

  void prepare_graph() override {
    if (saver_ || global_variables().empty()) return;
    const auto nowhere = device(nullptr);  // the saver knows where its nodes belong
    saver_.emplace(options_);
  }

  std::string save(Session& session, const std::string& prefix, int64_t step) override {
    return saver().save(session, prefix, {.global_step = step});
  }

  void restore(Session& session, const std::string& path) override {
    saver().restore(session, path);
  }

  std::optional<std::string> latest(const std::string& folder) override {
    return latest_checkpoint(folder);
  }

 private:
  Saver& saver() {
    if (saver_) return *saver_;
    internal::raise(Code::FailedPrecondition,
                    "[SessionSaver] the graph had no variables to save when the session was made");
  }

  const SaverOptions options_;
  std::optional<Saver> saver_;
};

}  // namespace

std::shared_ptr<SessionSaver> make_session_saver(const SaverOptions& options) {
  return std::make_shared<GraphSaver>(options);
}

}  // namespace cohort
