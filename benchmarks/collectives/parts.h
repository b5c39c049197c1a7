#pragma once

#include <string>

// The parts of this benchmark. Each returns how many members failed.
namespace cohort::bench {

// Packs in shared memory and ordinary tensors, beside hand-written loops, MPI and Gloo.
int on_one_host(const std::string& program, int members);
// A member of that, in a process that MPI's launcher started.
void run_member(const std::string& directory, int members);
// Messages by gRPC alone beside Gloo over TCP.
int by_grpc(int members);
// How long 64 threads and 16 processes take.
int many_members();

}  // namespace cohort::bench
