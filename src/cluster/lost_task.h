#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cohort/error.h"

namespace cohort::internal {

// A task that was there is not there any more: what is told of it.
inline Status lost_task(const std::string& task, const Status& why) {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Cluster] task {} is lost", task),
          .origin = task,
          .cause = std::make_shared<const Status>(why)};
}

// It is there again, without what it knew.
inline Status restarted_task(const std::string& task) {
  return {.code = Code::Aborted,
          .message = fmt::format("[Cluster] task {} was restarted; open a new session", task),
          .origin = task};
}

}  // namespace cohort::internal
