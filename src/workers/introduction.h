#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/error.h"
#include "transport/connection.h"
#include "transport/message_fields.h"

namespace cohort::internal {

// What a worker says of itself before it joins the others.
struct Introduction {
  std::string version = {};  // of the library
  Peer peer = {};
  uint64_t id = 0;            // among the workers
  std::string cluster = {};   // as text
  uint64_t workers = 0;       // how many it expects
  uint64_t replicas = 0;      // how many it has
  std::string settings = {};  // whatever else all must have alike
  std::string host = {};      // processes with the same text are on one machine
  std::string process = {};   // "process 4711 on node3"
  bool resumes = false;       // it was in the group before, and knows where training is
  static void list_fields(auto& fields, auto& m) {
    fields(m.version, m.peer.name, m.peer.incarnation, m.peer.address, m.id, m.cluster, m.workers,
           m.replicas, m.settings, m.host, m.process, m.resumes);
  }
};

// What goes over the connections of introductions.
enum class IntroductionKind : uint8_t {
  Hello,    // an Introduction
  Welcome,  // everybody's: the group is complete
  Problem,  // a Status: the group cannot begin
  Busy,     // a text: the group has begun already
  Waiting,  // a text: who is missing
};

Message hello(const Introduction& own);
Message welcome(const std::vector<Introduction>& all);
Message problem(const Status& status, const std::string& self);
Message busy(const std::string& text);
Message waiting(const std::string& text);

// Throws DataLoss for what is no such message, FailedPrecondition for one of another build.
IntroductionKind read_kind(MessageReader& reader);
Introduction read_introduction(MessageReader& reader);
std::vector<Introduction> read_welcome(MessageReader& reader);

// OK when both can be in one group, else FailedPrecondition that names both and what differs.
Status compare(const Introduction& one, const Introduction& other);

}  // namespace cohort::internal
