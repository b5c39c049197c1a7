#pragma once

#include "cohort/cluster.h"
#include "cohort/collective.h"
#include "cohort/internal/durations.h"

// Groups whose members `mpirun` started, for clusters whose network MPI knows best. Programs that
// include this header link cohort::mpi, which exists if Cohort was built with Open MPI or MPICH.

namespace cohort {

// MpiOptions configures make_mpi_group().
struct MpiOptions {
  // Whether members on one host reduce in shared memory, which is faster. MPI carries the rest.
  bool share_memory = true;
  // For the connections beside MPI, over which members compare their calls and notice a lost
  // member. Members on several hosts need certificates, or `insecure`.
  Credentials credentials = credentials_from_environment();
  // How long to wait for all members.
  std::chrono::nanoseconds meeting_time = std::chrono::seconds(60);
};

// Returns the group of all processes of mpirun, in MPI's order. All of them make this call.
//
//   Communicator group = make_mpi_group();
//   const Tensor total = group.all_reduce(x);
//
// The call starts MPI unless the program has done so, and MPI then ends with the program. Member k
// is named "/job:mpi/replica:0/task:k".
//
// MPI's collectives carry the values, and never wait for lost members: everything that Communicator
// promises about calls that differ, losses and timeouts holds. MPI decides the order of a sum.
// Cohort's own algorithms reduce 16-bit floats, and Min and Max of floats, whose NaNs MPI may lose.
//
// A collective that failed leaves MPI in an unknown state: no group of this process can use MPI
// afterwards. By default mpirun ends all processes if one of them dies.
//
// Throws FailedPrecondition if MPI was started without support for threads that take turns
// (MPI_THREAD_SERIALIZED).
Communicator make_mpi_group(const MpiOptions& options = {});

}  // namespace cohort
