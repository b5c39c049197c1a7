// All-reduces beside hand-written loops that do no more than they must, MPI and Gloo, where
// the build found them. What is compared runs in turn, in the same processes.
//
// Without arguments: everything. "host 2", "grpc 4", "many": that part.

#include <cstdlib>
#include <string_view>

#include "collectives/parts.h"

int main(int argc, char** argv) {
  namespace bench = cohort::bench;
  const std::string_view part = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 2;
  if (part == "--member" && argc == 4) {
    bench::run_member(argv[3], number);
    return 0;
  }
  int failed = 0;
  if (part == "host") failed += bench::on_one_host(argv[0], number);
  if (part == "grpc") failed += bench::by_grpc(number);
  if (part == "many") failed += bench::many_members();
  if (part.empty()) {
    for (const int members : {2, 4}) failed += bench::on_one_host(argv[0], members);
    for (const int members : {2, 4}) failed += bench::by_grpc(members);
    failed += bench::many_members();
  }
  return failed == 0 ? 0 : 1;
}
