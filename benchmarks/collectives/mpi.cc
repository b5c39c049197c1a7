#define OMPI_SKIP_MPICXX 1  // the C interface is enough
#include <mpi.h>

#include <cstdlib>

#include "collectives/peers.h"

namespace cohort::bench {

#ifdef OPEN_MPI  // as its header says
std::string mpi_name() { return "Open MPI"; }
constexpr char kOptions[] =
    "--allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader";
#else
std::string mpi_name() { return "MPICH"; }
constexpr char kOptions[] = "";
#endif

std::string mpi_launcher(int members) {
  return std::string(COHORT_MPIEXEC) + " " + kOptions + " -n " + std::to_string(members);
}

AllReduce mpi_all_reduce() {
  MPI_Init(nullptr, nullptr);
  std::atexit([] { MPI_Finalize(); });
  return [](float* values, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
}

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace cohort::bench
