#include "base/worker_texts.h"

#include <charconv>

#include "base/raise.h"

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
    return false;
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

Code code_for_all(Code code) { return is_loss(code) ? Code::FailedPrecondition : code; }

}  // namespace

std::string join_texts(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{} {}", text.size(), text);
  return all;
}

std::vector<std::string> split_texts(const std::string& joined) {
  std::vector<std::string> texts;
  const char* at = joined.data();
  const char* const end = at + joined.size();
  while (at != end) {
    size_t size = 0;
    const auto [behind, failed] = std::from_chars(at, end, size);
    if (failed != std::errc() || behind == end || *behind != ' ' ||
        size > static_cast<size_t>(end - behind - 1)) {
      raise(Code::DataLoss, "[Workers] a list of texts is damaged at byte {} of {}",
            at - joined.data(), joined.size());
    }
    texts.emplace_back(behind + 1, size);
    at = behind + 1 + size;
  }
  return texts;
}

std::string outcome_text(const std::exception_ptr& thrown) {
  if (thrown == nullptr) return "";
  const Status status = status_of(thrown);
  return join_texts({std::string(1, static_cast<char>(status.code)), status.message});
}

void throw_own_failure(Status own) {
  own.code = code_for_all(own.code);
  throw_if_error(own);
}

void throw_first_failure(std::string_view what, const std::exception_ptr& own,
                         const std::vector<std::string>& outcomes) {
  if (outcomes.size() == 1 || !is_error(own)) rethrow_if_any(own);
  for (size_t worker = 0; worker < outcomes.size(); ++worker) {
    if (outcomes[worker].empty()) continue;
    const Status failure = status_from(outcomes[worker]);
    raise(code_for_all(failure.code), "[{}] failed on worker {}, and ends on all: {}", what, worker,
          failure.message);
  }
}

}  // namespace cohort::internal
