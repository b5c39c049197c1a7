#pragma once

#define OMPI_SKIP_MPICXX 1  // the C interface is enough
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <string_view>

#include "base/mutex.h"

namespace cohort::internal {

// MPI itself, which there is once in a process. Calls of several threads take turns. Thread-safe.
class MpiWorld {
 public:
  // Starts MPI unless the program has. Throws FailedPrecondition when threads may not take turns.
  static MpiWorld& of_process();
  ~MpiWorld();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Runs body(), which makes one call that does not wait, or that all members make at once. Throws
  // Internal with MPI's text when it fails; FailedPrecondition after `abandon`.
  template <typename Body>
  void call(std::string_view name, const Body& body) {
    const std::lock_guard one_at_a_time(calling_);
    check_usable();
    check(body(), name);
  }
  // A request was given up: MPI may write into its memory at any call from here on.
  void abandon() { abandoned_ = true; }
  // Whether MPI can still be used.
  bool is_usable() const;

 private:
  MpiWorld();
  void check_usable() const;
  static void check(int result, std::string_view name);

  bool is_ours_ = false;
  int rank_ = 0;
  int size_ = 1;
  Turn calling_;  // of the thread that calls MPI, where it may wait for the other members
  std::atomic<bool> abandoned_{false};
};

}  // namespace cohort::internal
