#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/credentials.h"
#include "transport/party.h"

namespace cohort::internal {

// How a connection travels. Nearest: inside of this process when the address is one of its
// listeners; else by shared memory when both sides are on one host; else by gRPC.
enum class Way { Nearest, InProcess, SharedMemory, Grpc };

// What COHORT_TRANSPORT says: "in-process", "shared-memory" or "grpc"; Nearest when it is not set.
// InvalidArgument for anything else.
Way way_from_environment();

struct EndpointOptions {
  // address: "host:port" to listen at, where port 0 is the system's choice; empty for a client.
  Peer self = {};
  uint64_t cluster =
      0;  // fingerprint; parties of different clusters do not connect. 0: fits to all
  Credentials credentials = {};
  // Whether other hosts are to reach this one. If not it listens on the loopback interface,
  // whatever host the address names; if so, at that host's address.
  bool spans_hosts = false;
  std::string listen_host = {};  // where to listen instead, such as "0.0.0.0"
  Way way = way_from_environment();
  // What a status request gets as details: text. Called on a thread of the endpoint; must be quick.
  std::function<std::string()> details = {};
};

// The endpoint between processes. self().address has the port that was chosen.
//
// `accept` gets what others open, after certificates, token, cluster and protocol were found to
// fit. A client leaves it out. Neither it nor an event of a connection may stop the endpoint: hand
// that to another thread.
//
// Throws Unknown when the port is taken (by whom, if that can be found out), InvalidArgument and
// what check_credentials throws for bad options, FailedPrecondition when it would listen to other
// hosts without certificates and `insecure` is not set.
std::unique_ptr<Party> make_endpoint(EndpointOptions options, Party::Accept accept = {});

}  // namespace cohort::internal
