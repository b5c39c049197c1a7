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
#include "cli/cluster_text.h"
#include "cli/crash_record.h"
#include "cli/node_messages.h"
#include "cohort/error.h"

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
    case NodeMessage::Offer:
      (void)decode<NodeOffer>(message);
      return;
    case NodeMessage::Hold:
      (void)decode<NodeHold>(message);
      return;
    case NodeMessage::Held:
      (void)decode<NodeHeld>(message);
      return;
    case NodeMessage::Start:
      (void)decode<NodeStart>(message);
      return;
    case NodeMessage::Signal:
      (void)decode<NodeSignal>(message);
      return;
    case NodeMessage::Line:
      (void)decode<NodeLine>(message);
      return;
    case NodeMessage::Ended:
      (void)decode<NodeEnding>(message);
      return;
    case NodeMessage::Waits:
      (void)decode<NodeWaits>(message);
      return;
    case NodeMessage::Where:
      (void)decode<NodeWhere>(message);
      return;
    case NodeMessage::Place:
      (void)decode<NodePlace>(message);
      return;
    case NodeMessage::Timeline:
      (void)decode<NodeTimeline>(message);
      return;
    case NodeMessage::Clock:
      (void)decode<NodeClock>(message);
      return;
    case NodeMessage::Goodbye:
      (void)decode<NodeGoodbye>(message);
      return;
    case NodeMessage::Progress:
      (void)decode<NodeProgress>(message);
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
