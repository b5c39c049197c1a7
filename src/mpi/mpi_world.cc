#include "mpi/mpi_world.h"

#include "base/raise.h"

namespace cohort::internal {

MpiWorld& MpiWorld::of_process() {
  static MpiWorld world;
  return world;
}

MpiWorld::MpiWorld() {
  int is_started = 0;
  check(MPI_Initialized(&is_started), "MPI_Initialized");
  int threads = MPI_THREAD_SINGLE;
  if (is_started != 0) {
    check(MPI_Query_thread(&threads), "MPI_Query_thread");
  } else {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    is_ours_ = true;
  }
  if (threads < MPI_THREAD_SERIALIZED) {
    raise(Code::FailedPrecondition,
          "[Mpi] MPI was started for one thread; start it with MPI_Init_thread and "
          "MPI_THREAD_SERIALIZED, or leave that to Cohort");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

// Ending MPI waits for what was given up, and so perhaps for ever: then the process just ends.
MpiWorld::~MpiWorld() {
  if (is_ours_ && is_usable()) MPI_Finalize();
}

bool MpiWorld::is_usable() const {
  int is_over = 0;
  return !abandoned_ && MPI_Finalized(&is_over) == MPI_SUCCESS && is_over == 0;
}

void MpiWorld::check_usable() const {
  if (is_usable()) return;
  raise(Code::FailedPrecondition,
        "[Mpi] MPI cannot be used any more: it has ended, or an earlier collective failed and left "
        "it in an unknown state; start the job again");
}

void MpiWorld::check(int result, std::string_view name) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  raise(Code::Internal, "[Mpi] {} failed: {}", name,
        std::string_view(text, static_cast<size_t>(length)));
}

}  // namespace cohort::internal
