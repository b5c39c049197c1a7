#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace cohort {

// While it lives, the environment has these variables (nullopt: not set); then what it had before.
class ScopedEnvironment {
 public:
  using Variables = std::map<std::string, std::optional<std::string>>;

  explicit ScopedEnvironment(const Variables& variables) {
    for (const auto& [name, value] : variables) set(name, value);
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) put(name, value);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* old = std::getenv(name.c_str());
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }

  Variables before_;
};

}  // namespace cohort
