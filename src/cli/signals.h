#pragma once

#include <initializer_list>

namespace cohort::cli {

// Signals of this process as a file to read, for as long as the object lives; those that this
// process was started to ignore, as by nohup, stay ignored. Make it before threads.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const { return file_; }
  // The next one that came; 0 when there is none.
  int next();

 private:
  int file_;
};

}  // namespace cohort::cli
