// One fuzz target per kind of text and message that the command `cohort` reads; the variable
// COHORT_FUZZ_TARGET chooses. Whatever the bytes are, they are taken or refused with an Error that
// is not Internal.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "cohort/error.h"
#include "launch/run_layout.h"
#include "launch/task_ending.h"
#include "launch/task_host.h"

namespace cohort::cli {
namespace {

void fuzz_cluster_text(std::string_view text) { (void)parse_cluster(std::string(text)); }

// What a task that died left behind; it may have died of anything.
void fuzz_crash_record(std::string_view text) {
  static const std::string path = "/dev/shm/cohort_fuzz_crash_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << text;
  (void)read_crash_record(path);
  ::unlink(path.c_str());
}

void fuzz_launcher_message(std::string_view bytes) {
  const internal::Message message{std::string(bytes)};
  switch (kind_of(message)) {
    case MachineMessage::Offer:
      (void)decode<MachineOffer>(message);
      return;
    case MachineMessage::Hold:
      (void)decode<MachineHold>(message);
      return;
    case MachineMessage::Held:
      (void)decode<MachineHeld>(message);
      return;
    case MachineMessage::Start:
      (void)decode<MachineStart>(message);
      return;
    case MachineMessage::Signal:
      (void)decode<MachineSignal>(message);
      return;
    case MachineMessage::Line:
      (void)decode<MachineLine>(message);
      return;
    case MachineMessage::Ended:
      (void)decode<MachineEnding>(message);
      return;
    case MachineMessage::Waits:
      (void)decode<MachineWaits>(message);
      return;
    case MachineMessage::Where:
      (void)decode<MachineWhere>(message);
      return;
    case MachineMessage::Place:
      (void)decode<MachinePlace>(message);
      return;
    case MachineMessage::Timeline:
      (void)decode<MachineTimeline>(message);
      return;
    case MachineMessage::Clock:
      (void)decode<MachineClock>(message);
      return;
    case MachineMessage::Goodbye:
      (void)decode<MachineGoodbye>(message);
      return;
    case MachineMessage::Progress:
      (void)decode<MachineProgress>(message);
      return;
    case MachineMessage::Interrupted:
      (void)decode<MachineInterrupted>(message);
      return;
  }
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"cluster_text", fuzz_cluster_text},
    {"crash_record", fuzz_crash_record},
    {"launcher_message", fuzz_launcher_message}};

}  // namespace
}  // namespace cohort::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return cohort::try_text(cohort::cli::kTargets, data, size);
}
