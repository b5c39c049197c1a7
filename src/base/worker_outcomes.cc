#include "base/worker_outcomes.h"

#include "base/text.h"

namespace cohort::internal {
namespace {

Status status_from(const std::string& outcome) {
  const std::vector<std::string> parts = split_texts(outcome);
  if (parts.size() == 2 && parts[0].size() == 1) {
    return {.code = static_cast<Code>(parts[0][0]), .message = parts[1]};
  }
  raise(Code::DataLoss, "[Workers] {} bytes from another worker are not an outcome",
        outcome.size());
}

bool is_error(const std::exception_ptr& thrown) {
  try {
    rethrow_if_any(thrown);
  } catch (const Error&) {
    return true;
  } catch (...) {
  }
  return false;
}

Code code_for_all(Code code) { return is_loss(code) ? Code::FailedPrecondition : code; }

}  // namespace

std::string outcome_text(const std::exception_ptr& thrown) {
  if (thrown == nullptr) return "";
  const Status status = status_of(thrown);
  return join_texts({std::string(1, static_cast<char>(status.code)), status.message});
}

void throw_local_failure(Status local) {
  local.code = code_for_all(local.code);
  throw_if_error(local);
}

void throw_first_failure(std::string_view what, const std::exception_ptr& local,
                         const std::vector<std::string>& outcomes) {
  if (outcomes.size() == 1 || !is_error(local)) rethrow_if_any(local);
  for (size_t worker = 0; worker < outcomes.size(); ++worker) {
    if (outcomes[worker].empty()) continue;
    const Status failure = status_from(outcomes[worker]);
    raise(code_for_all(failure.code),
          "[{}] the call failed on worker {}, and ends on all workers: {}", what, worker,
          failure.message);
  }
}

}  // namespace cohort::internal
