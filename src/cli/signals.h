#pragma once

#include <initializer_list>

#include "base/file_descriptor.h"

namespace cohort::cli {

// Signals of this process as a file to read, for as long as the object lives; those that this
// process was started to ignore, as by nohup, stay ignored. Make it before threads.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals);

  int file() const { return file_.get(); }
  // The next one that came; 0 when there is none.
  int next();

 private:
  // Signals that come after the end stay blocked: the program is about to end.
  internal::FileDescriptor file_;
};

}  // namespace cohort::cli
