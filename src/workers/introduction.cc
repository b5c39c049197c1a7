#include "workers/introduction.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "transport/status_message.h"
#include "transport/two_way_fields.h"

namespace cohort::internal {
namespace {

// Changes with everything that workers say to each other before their collectives begin.
constexpr uint64_t kProtocol = 1;

Message begin(IntroductionKind kind) {
  Message message;
  MessageWriter(message).number(kProtocol).number(static_cast<uint64_t>(kind));
  return message;
}

// For writing and reading.
void list_fields(auto& fields, EitherWay<Introduction> auto& of) {
  fields.text(of.version);
  fields.text(of.peer.name);
  fields.number(of.peer.incarnation);
  fields.text(of.peer.address);
  fields.number(of.id);
  fields.text(of.cluster);
  fields.number(of.workers);
  fields.number(of.replicas);
  fields.text(of.settings);
  fields.text(of.host);
  fields.text(of.process);
  fields.flag(of.resumes);
}

Status differ(const Introduction& one, const Introduction& other, const std::string& how) {
  return {.code = Code::FailedPrecondition,
          .message = fmt::format("[MultiWorkerMirroredStrategy] {} ({}) and {} ({}) cannot train "
                                 "together: {}",
                                 one.peer.name, one.process, other.peer.name, other.process, how)};
}

}  // namespace

Message hello(const Introduction& own) {
  Message message = begin(IntroductionKind::Hello);
  FieldsOut fields(message);
  list_fields(fields, own);
  return message;
}

Message welcome(const std::vector<Introduction>& all) {
  Message message = begin(IntroductionKind::Welcome);
  FieldsOut fields(message);
  fields.values(all, [&](const Introduction& each) { list_fields(fields, each); });
  return message;
}

Message problem(const Status& status, const std::string& self) {
  Message message = begin(IntroductionKind::Problem);
  MessageWriter writer(message);
  write_status(status, self, writer);
  return message;
}

Message busy(const std::string& text) {
  Message message = begin(IntroductionKind::Busy);
  MessageWriter(message).text(text);
  return message;
}

Message waiting(const std::string& text) {
  Message message = begin(IntroductionKind::Waiting);
  MessageWriter(message).text(text);
  return message;
}

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

Introduction read_introduction(MessageReader& reader) {
  Introduction read;
  FieldsIn fields(reader);
  list_fields(fields, read);
  return read;
}

std::vector<Introduction> read_welcome(MessageReader& reader) {
  std::vector<Introduction> all(reader.count());
  for (Introduction& each : all) each = read_introduction(reader);
  return all;
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
