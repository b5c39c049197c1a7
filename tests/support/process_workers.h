#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/free_ports.h"
#include "support/process.h"
#include "support/scoped_environment.h"

namespace cohort::test {

// Workers of a MultiWorkerMirroredStrategy, each a process that runs `words` with its TF_CONFIG.
class ProcessWorkers {
 public:
  ProcessWorkers(int count, std::vector<std::string> words)
      : words_(std::move(words)), addresses_(free_addresses(count)) {
    for (int id = 0; id < count; ++id) workers_.push_back(nullptr);
    for (int id = 0; id < count; ++id) start(id);
  }

  int size() const { return static_cast<int>(workers_.size()); }
  Process& operator[](int id) { return *workers_[static_cast<size_t>(id)]; }
  const std::string& address(int id) const { return addresses_[static_cast<size_t>(id)]; }
  // Starts that worker, again if it has been started before.
  void start(int id) {
    const ScopedEnvironment place({{"TF_CONFIG", config(id)}});
    workers_[static_cast<size_t>(id)] = std::make_unique<Process>(words_);
  }
  // Waits until it has written that; false after the limit, or when it has ended without.
  bool await_output(int id, const std::string& text,
                    std::chrono::seconds limit = std::chrono::seconds(30)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
      const bool ended = (*this)[id].wait(std::chrono::seconds(0)) != -1000;
      if ((*this)[id].output().find(text) != std::string::npos) return true;
      if (ended || std::chrono::steady_clock::now() >= deadline) return false;
    }
  }

 private:
  std::string config(int id) const {
    std::string list;
    for (const std::string& address : addresses_)
      list += (list.empty() ? "\"" : ", \"") + address + "\"";
    return R"({"cluster": {"worker": [)" + list + R"(]}, "task": {"type": "worker", "index": )" +
           std::to_string(id) + "}}";
  }

  const std::vector<std::string> words_;
  const std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Process>> workers_;
};

}  // namespace cohort::test
