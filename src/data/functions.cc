// The functions that descriptions refer to by name.

#include "data/functions.h"

#include <mutex>

namespace cohort::data {
namespace internal {
namespace {

template <typename F>
class Registry {
 public:
  F add(const std::string& name, F function) {
    if (name.empty()) raise(Code::InvalidArgument, "[Register] a function needs a name");
    const std::lock_guard lock(mutex_);
    function = DatasetAccess::named(std::move(function), name);
    if (!functions_.emplace(name, function).second) {
      raise(Code::AlreadyExists, "[Register] there is a function '{}' already", name);
    }
    return function;
  }
  F find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
      raise(
          Code::NotFound,
          "[Dataset] this process has no function '{}'; register it, as the process that made the "
          "dataset did",
          name);
    }
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, F> functions_;
};

template <typename F>
Registry<F>& registry() {
  static Registry<F> all;
  return all;
}

}  // namespace

Function find_function(const std::string& name) { return registry<Function>().find(name); }
DatasetFunction find_dataset_function(const std::string& name) {
  return registry<DatasetFunction>().find(name);
}
GeneratorFunction find_generator(const std::string& name) {
  return registry<GeneratorFunction>().find(name);
}

}  // namespace internal

Function register_function(const std::string& name, Function function) {
  return internal::registry<Function>().add(name, std::move(function));
}

DatasetFunction register_dataset_function(const std::string& name, DatasetFunction function) {
  return internal::registry<DatasetFunction>().add(name, std::move(function));
}

GeneratorFunction register_generator(const std::string& name, GeneratorFunction function) {
  return internal::registry<GeneratorFunction>().add(name, std::move(function));
}

}  // namespace cohort::data
