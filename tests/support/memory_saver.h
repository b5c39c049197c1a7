#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/hooks.h"

namespace cohort {

// Keeps the values of a graph's variables in memory, for tests of what saves and restores. Make it
// while the graph is being built.
class MemorySaver : public SessionSaver {
 public:
  MemorySaver() {
    for (Variable& variable : global_variables_) {
      reads_.push_back(variable.read_value());
      values_.push_back(placeholder(variable.dtype(), variable.shape()));
      assigns_.push_back(variable.assign(values_.back()));
    }
  }

  std::string save(Session& session, const std::string& prefix, int64_t step) override {
    const std::string path = prefix + "-" + std::to_string(step);
    const std::vector<Tensor> values = session.run(reads_);
    const std::lock_guard lock(mutex_);
    saved_[path] = values;
    paths_.push_back(path);
    return path;
  }

  void restore(Session& session, const std::string& path) override {
    Feeds feeds;
    const std::lock_guard lock(mutex_);
    const std::vector<Tensor>& values = saved_.at(path);
    for (size_t i = 0; i < values.size(); ++i) feeds.push_back({values_[i], values[i]});
    session.run(assigns_, feeds);
  }

  std::optional<std::string> latest(const std::string& /*directory*/) override {
    const std::lock_guard lock(mutex_);
    if (paths_.empty()) return std::nullopt;
    return paths_.back();
  }

  // What was saved, in order.
  std::vector<std::string> paths() const {
    const std::lock_guard lock(mutex_);
    return paths_;
  }

 private:
  std::vector<Variable> global_variables_ = cohort::global_variables();
  std::vector<Tensor> reads_, values_, assigns_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Tensor>> saved_;  // guarded by mutex_
  std::vector<std::string> paths_;                    // guarded by mutex_
};

}  // namespace cohort
