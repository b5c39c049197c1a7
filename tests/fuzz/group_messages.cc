// One fuzz target per kind of message between the members of a group; the variable
// COHORT_FUZZ_TARGET chooses. What is refused must be refused by DataLoss, or by FailedPrecondition
// where it may come from another build.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "chosen_target.h"
#include "cohort/error.h"
#include "collectives/call.h"
#include "membership/bootstrap.h"

namespace cohort::internal {
namespace {

// What a member says of a call is printed when calls differ.
void fuzz_collective_call(std::string_view bytes) {
  const Message message{std::string(bytes)};
  MessageReader reader(message, "a call");
  (void)to_string(decode_next<Call>(reader));
}

// The first byte says what follows: the settings in a worker's handshake (0) or a message.
void fuzz_bootstrap(std::string_view bytes) {
  const std::string rest(bytes.substr(std::min<size_t>(1, bytes.size())));
  if (bytes.starts_with('\0')) {
    const Member self{.peer = {.name = "self", .build = "1"}};
    const Peer peer{.name = "other", .build = "1", .settings = rest};
    return throw_if_error(compare(self, member_of(peer, self)));
  }
  const Message message{rest};
  MessageReader reader(message, "a message between workers");
  (void)decode_rest<BootstrapMessage>(reader);
}

constexpr std::pair<std::string_view, void (*)(std::string_view)> kTargets[] = {
    {"bootstrap", fuzz_bootstrap}, {"collective_call", fuzz_collective_call}};

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
