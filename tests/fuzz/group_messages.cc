// One fuzz target per kind of message between the members of a group; the variable
// COHORT_FUZZ_TARGET chooses. What is refused must be refused by DataLoss, or by FailedPrecondition
// where it may come from another build.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "cohort/error.h"
#include "collectives/call.h"
#include "collectives/shared_segment.h"
#include "transport/status_message.h"
#include "workers/introduction.h"

namespace cohort::internal {
namespace {

// What a member says of a call is printed when calls differ.
void fuzz_collective_call(std::string_view bytes) {
  const Message message{std::string(bytes)};
  MessageReader reader(message, "a call");
  (void)to_string(decode_next<Call>(reader));
}

// Memory that nobody made is not opened.
void fuzz_segment_name(std::string_view bytes) {
  const Message message{std::string(bytes)};
  MessageReader reader(message, "the name of a segment");
  SegmentName name = SegmentName::read(reader);
  name.pid = UINT32_MAX;
  if (capture_status([&] { (void)SharedSegment::open(name); }).ok()) std::abort();
}

void fuzz_introduction(std::string_view bytes) {
  const Message message{std::string(bytes)};
  MessageReader reader(message, "an introduction");
  switch (read_kind(reader)) {
    case IntroductionKind::Hello: {
      const Introduction theirs = read_introduction(reader);
      return throw_if_error(compare(theirs, {}));
    }
    case IntroductionKind::Welcome:
      (void)read_welcome(reader);
      return;
    case IntroductionKind::Problem:
      (void)read_status(reader);
      return;
    case IntroductionKind::Busy:
    case IntroductionKind::Waiting:
      (void)reader.text();
      return;
  }
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"collective_call", fuzz_collective_call},
    {"introduction", fuzz_introduction},
    {"segment_name", fuzz_segment_name}};

}  // namespace
}  // namespace cohort::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using cohort::Code;
  static const auto target = cohort::chosen_target(cohort::internal::kTargets);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Code code = cohort::capture_status([&] { target(bytes); }).code;
  if (code != Code::Ok && code != Code::DataLoss && code != Code::FailedPrecondition) std::abort();
  return 0;
}
