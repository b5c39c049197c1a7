#include "workers/introduction.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "transport/message_codec.h"

namespace cohort::internal {
namespace {

// Changes with everything that workers say to each other before their collectives begin.
constexpr uint64_t kProtocol = 1;

// A message of the kind with that content.
template <typename T>
Message encoded(IntroductionKind kind, const T& content, const std::string& self = {}) {
  Message message;
  MessageEncoder(message, self)(kProtocol, kind, content);
  return message;
}

Status differ(const Introduction& one, const Introduction& other, const std::string& how) {
  return {.code = Code::FailedPrecondition,
          .message = fmt::format("[MultiWorkerMirroredStrategy] {} ({}) and {} ({}) cannot train "
                                 "together: {}",
                                 one.peer.name, one.process, other.peer.name, other.process, how)};
}

}  // namespace

Message hello(const Introduction& own) { return encoded(IntroductionKind::Hello, own); }
Message welcome(const std::vector<Introduction>& all) {
  return encoded(IntroductionKind::Welcome, all);
}
Message problem(const Status& status, const std::string& self) {
  return encoded(IntroductionKind::Problem, status, self);
}
Message busy(const std::string& text) { return encoded(IntroductionKind::Busy, text); }
Message waiting(const std::string& text) { return encoded(IntroductionKind::Waiting, text); }

IntroductionKind read_kind(MessageReader& reader) {
  const uint64_t protocol = reader.number();
  if (protocol != kProtocol) {
    raise(Code::FailedPrecondition,
          "[MultiWorkerMirroredStrategy] a worker is of another build: it introduces itself by "
          "protocol {}, this one by {}; run the same release on all",
          protocol, kProtocol);
  }
  return static_cast<IntroductionKind>(
      reader.number(static_cast<uint64_t>(IntroductionKind::Waiting)));
}

Introduction read_introduction(MessageReader& reader) { return decode_next<Introduction>(reader); }

std::vector<Introduction> read_welcome(MessageReader& reader) {
  return decode_next<std::vector<Introduction>>(reader);
}

Status compare(const Introduction& one, const Introduction& other) {
  if (one.version != other.version) {
    return differ(one, other,
                  fmt::format("they are of different builds of the library, {} and {}; run the "
                              "same release on all",
                              one.version, other.version));
  }
  if (one.workers != other.workers || one.cluster != other.cluster) {
    return differ(one, other,
                  fmt::format("one knows {} workers, {}, the other {} workers, {}; start all with "
                              "the same cluster",
                              one.workers, one.cluster, other.workers, other.cluster));
  }
  if (one.id == other.id && one.peer.incarnation != other.peer.incarnation) {
    return differ(one, other,
                  fmt::format("both are worker {}; give each process an index of its own", one.id));
  }
  if (one.replicas != other.replicas) {
    return differ(one, other,
                  fmt::format("one has {} replicas, the other {}; give all workers the same number "
                              "of devices",
                              one.replicas, other.replicas));
  }
  if (one.settings != other.settings) {
    return differ(one, other,
                  fmt::format("one was made with {}, the other with {}; give all the same options",
                              one.settings, other.settings));
  }
  return {};
}

}  // namespace cohort::internal
