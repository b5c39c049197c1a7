#pragma once

#include <string_view>

#include "base/thread_context.h"

namespace cohort::internal {

// While it lives, errors of devices in this thread name that op. `name` must outlive it.
class [[nodiscard]] RunningOp {
 public:
  explicit RunningOp(const std::string_view& name) : running_(slot_, &name) {}

  // "Device" where no op runs: a torch program, for example, makes tensors of its own.
  static std::string_view name() {
    const std::string_view* const name = slot_.get();
    return name != nullptr ? *name : "Device";
  }

 private:
  static inline constinit ContextSlot<const std::string_view*> slot_;

  const ContextValue<const std::string_view*> running_;
};

}  // namespace cohort::internal
