#pragma once

// Not for inclusion by users: include cohort/gradient.h.

#include "cohort/gradient.h"

namespace cohort {

class [[nodiscard]] GradientTape::Pause {
 public:
  explicit Pause(internal::Tape& tape);
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  internal::Tape& tape_;
};

}  // namespace cohort
