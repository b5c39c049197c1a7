#pragma once

#include "collectives/collective_group.h"

namespace cohort::internal {

// MPI's collectives for groups whose Links number the members as MPI_COMM_WORLD does.
EngineChoice mpi_engine();

}  // namespace cohort::internal
