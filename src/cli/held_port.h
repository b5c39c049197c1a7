#pragma once

#include <string>

#include "base/file_descriptor.h"

namespace cohort::cli {

// A port that the system chose, kept for one task of a run.
//
// It is bound and does not listen. Linux gives such a port to nobody who asks for any, and lets a
// server that names it and sets SO_REUSEADDR (as gRPC does) listen there: the launcher holds it
// before the task takes it, while the task has it, and until a restarted one takes it again. Two
// that listen are refused as ever.
class HeldPort {
 public:
  // ResourceExhausted when no port is free at `host`, an address of this machine.
  explicit HeldPort(const std::string& host);

  int number() const { return number_; }

 private:
  internal::FileDescriptor socket_;
  int number_ = 0;
};

}  // namespace cohort::cli
