#pragma once

#include "collectives/collective_group.h"
#include "membership/member.h"

namespace cohort::internal {

// MPI's collectives for groups whose Links number the members as MPI_COMM_WORLD does.
EngineChoice mpi_engine();

// The members of a group by rank; a call that all processes of MPI_COMM_WORLD make. If two of them
// do not fit, each process throws FailedPrecondition that names both and the difference.
std::vector<Member> exchange_members(const Member& self);

}  // namespace cohort::internal
