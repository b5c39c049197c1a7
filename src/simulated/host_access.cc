// An access of the host to the memory of a simulated GPU is a fault of the processor. The handler
// says which op did it, and then lets the process end as it would have ended without a handler.

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string_view>

#include "simulated/gpus.h"
#include "simulated/registration.h"
#include "simulated/running_op.h"

namespace cohort::internal {
namespace {

struct sigaction before_watching;

// A handler may not allocate.
void write_text(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void report(const SimulatedGpu& gpu) {
  write_text("[");
  write_text(RunningOp::name());
  write_text("] the host read or wrote memory of ");
  write_text(gpu.name);
  write_text(
      "; on a GPU this is an error, too: copy the tensor to the host first (torch: .cpu(), Cohort: "
      "to_vector() or identity() in a scope of CPU:0)\n");
}

void on_fault(int signal, siginfo_t* info, void*) {
  if (const SimulatedGpu* const gpu = gpu_of_address(info->si_addr)) report(*gpu);
  // The access is repeated after the return, under the handler that was there before.
  sigaction(signal, &before_watching, nullptr);
}

}  // namespace

void watch_host_access() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before_watching);
}

}  // namespace cohort::internal
