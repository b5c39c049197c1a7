#pragma once

#include <chrono>

#include "cohort/collective.h"
#include "cohort/credentials.h"

// Groups whose members `mpirun` started, for clusters with a fabric that MPI knows best. Programs
// that include this link cohort::mpi, which is there where Cohort was built beside an MPI (Open MPI
// or MPICH).

namespace cohort {

struct MpiOptions {
  // Members of one host reduce in shared memory, which is quicker than MPI; MPI carries the rest.
  bool share_memory = true;
  // For the connections beside MPI, over which members compare their calls and notice that one is
  // gone: members on several hosts need certificates, or `insecure`.
  Credentials credentials = credentials_from_environment();
  // How long to wait for all members.
  std::chrono::nanoseconds meeting_time = std::chrono::seconds(60);
};

// The group of all processes that mpirun started, in MPI's order; a call that all of them make.
// Starts MPI where the program has not, and ends it with the program. Member k is named
// "/job:mpi/replica:0/task:k".
//
// MPI's collectives send the values. They do not wait for lost members: what the Communicator
// promises of differences, losses and timeouts holds. The order of a sum is MPI's own. 16-bit
// floats, and the smallest and largest of floating values, whose NaNs MPI may lose, go by Cohort's
// own algorithms.
//
// A collective that failed leaves MPI in an unknown state: no group of this process can
// use it afterwards. By default mpirun ends all processes when one of them dies.
//
// FailedPrecondition when MPI was started without threads that may take turns
// (MPI_THREAD_SERIALIZED).
Communicator make_mpi_group(const MpiOptions& options = {});

}  // namespace cohort
