#include <cstdio>

#include "base/raise.h"
#include "cohort/hooks.h"
#include "tensor/print.h"

namespace cohort {

LoggingTensorHook::LoggingTensorHook(const LoggingTensorOptions& options)
    : options_(options), timer_("LoggingTensorHook", options.every) {
  if (options.tensors.empty()) {
    internal::raise(Code::InvalidArgument, "[LoggingTensorHook] .tensors must be given");
  }
  for (const auto& [name, tensor] : options.tensors) fetches_.push_back(tensor);
  if (!options_.write) {
    options_.write = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  }
}

void LoggingTensorHook::print(const std::vector<Tensor>& values) const {
  std::string line;
  size_t i = 0;
  for (const auto& [name, tensor] : options_.tensors) {
    line +=
        fmt::format("{}{} = {}", i == 0 ? "" : ", ", name, internal::format_like_python(values[i]));
    ++i;
  }
  options_.write(line);
}

SessionRunArgs LoggingTensorHook::before_run(SessionRunContext&) {
  asked_ = timer_.due(runs_);
  return asked_ ? SessionRunArgs{.fetches = fetches_} : SessionRunArgs{};
}

void LoggingTensorHook::after_run(SessionRunContext&, const SessionRunValues& values) {
  if (asked_) {
    timer_.happened(runs_);
    print(values.results);
  }
  ++runs_;
}

void LoggingTensorHook::end(Session& session) {
  if (options_.at_end) print(session.run(fetches_));
}

}  // namespace cohort
