#include "coordinator/remote_variable.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "cohort/graph.h"
#include "coordinator/remote_cell.h"
#include "ops/variable_ops.h"
#include "tensor/print.h"

namespace cohort::internal {

RemoteVariable::RemoteVariable(const VariableOptions& options, const Shape& shape, DType dtype,
                               Place place)
    : SingleVariable(options), place_(std::move(place)) {
  const ParameterServers::Lease lease = place_.servers->lease(place_.device, place_.unique_name);
  lease_ = lease;
  handle_ = {make_resource(std::make_shared<RemoteCell>(place_.unique_name, place_.device,
                                                        place_.servers, lease)),
             options.name, dtype, shape};
}

// It had a value when it was made. Who saves it must not take it for one that never had any.
bool RemoteVariable::is_initialized() const {
  const Graph::Scope untraced(nullptr);
  if (is_variable_initialized(handle_).to<bool>()) return true;
  raise(Code::Unavailable,
        "[Variable] '{}' is lost: {} was started again without it; restore a checkpoint", name(),
        place_.device.split().first);
}

std::shared_ptr<VariableImpl> RemoteVariable::deep_copy() const {
  Place place = place_;
  place.unique_name = place_.servers->unique_name(place_.unique_name + "/copy");
  const auto copy =
      std::make_shared<RemoteVariable>(options_, handle_.shape, handle_.dtype, std::move(place));
  copy->strategy = strategy;
  copy->assign(read());
  return copy;
}

std::string RemoteVariable::to_string() const {
  return fmt::format("<Variable '{}:0' shape={} dtype={}, value={}>", name(),
                     handle_.shape.to_string(), cohort::to_string(handle_.dtype),
                     format_like_python(read()));
}

}  // namespace cohort::internal
