#pragma once

#include <cstddef>
#include <functional>
#include <string>

// Other libraries' all-reduces, for this benchmark. A library that was not found when
// this was built gives an empty function.
namespace cohort::bench {

using AllReduce = std::function<void(float* values, size_t count)>;

// Which MPI it is: "Open MPI".
std::string mpi_name();
// The command that starts `members` of this program, up to the program's name; empty: fork.
std::string mpi_launcher(int members);
// In a process that the launcher started.
AllReduce mpi_all_reduce();
int mpi_rank();

// `directory`: an empty one that the members share.
AllReduce gloo_all_reduce(const std::string& directory, int rank, int size);

}  // namespace cohort::bench
