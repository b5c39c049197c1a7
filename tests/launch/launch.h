#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/eventually.h"
#include "support/process.h"
#include "support/scoped_environment.h"

namespace cohort::test {

// A directory for the runs of one test, removed with all that is in it.
class LaunchDirectory {
 public:
  LaunchDirectory() {
    char name[] = "/tmp/cohort_launch_XXXXXX";
    path_ = mkdtemp(name);
    variables_.emplace(ScopedEnvironment::Variables{{"TMPDIR", path_}});
  }
  ~LaunchDirectory() {
    std::error_code failed;  // where a launcher that ends deletes files at the same time
    for (int tries = 0; tries < 100; ++tries) {
      std::filesystem::remove_all(path_, failed);
      if (!failed) return;
    }
  }
  LaunchDirectory(const LaunchDirectory&) = delete;
  LaunchDirectory& operator=(const LaunchDirectory&) = delete;

  const std::string& path() const { return path_; }
  // All files below it with that name.
  std::vector<std::string> files(const std::string& name) const {
    std::vector<std::string> found;
    std::error_code gone;  // what is deleted meanwhile ends the list
    std::filesystem::recursive_directory_iterator at(path_, gone);
    for (; !gone && at != std::filesystem::recursive_directory_iterator(); at.increment(gone)) {
      if (at->path().filename() == name) found.push_back(at->path().string());
    }
    return found;
  }

 private:
  std::string path_;
  std::optional<ScopedEnvironment> variables_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// `cohort run` with these words behind it.
inline std::vector<std::string> run_words(const std::vector<std::string>& words) {
  std::vector<std::string> all{COHORT_COMMAND, "run"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Launched {
  int code;
  std::string output;
};
inline Launched launch(const std::vector<std::string>& words) {
  Process process(run_words(words));
  const int code = process.wait();
  return {code, process.output()};
}

}  // namespace cohort::test
