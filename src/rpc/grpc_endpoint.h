#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/cluster.h"
#include "transport/connection.h"

namespace cohort::internal {

// How messages are sent. Nearest: inside this process when the address belongs to one of its
// listeners; else by shared memory when both sides are on one host; else by gRPC.
enum class TransportKind { Nearest, InProcess, SharedMemory, Grpc };

// The value of COHORT_TRANSPORT: "in-process", "shared-memory" or "grpc"; Nearest when the variable
// is not set. Throws InvalidArgument for another value.
TransportKind transport_from_environment();

struct EndpointOptions {
  // address: "host:port" to listen at, where port 0 is the system's choice; empty for a client.
  Peer self = {};
  // Fingerprint; endpoints of different clusters do not connect. 0: fits to all.
  uint64_t cluster = 0;
  Credentials credentials = {};
  // Whether other hosts must reach this endpoint. If not, the endpoint listens on the loopback
  // interface, whatever host the address names.
  bool spans_hosts = false;
  TransportKind transport = transport_from_environment();
  // The details in the answer to a status request. Called on a thread of the endpoint; must be
  // quick.
  std::function<std::string()> details = {};
};

// The endpoint between processes. self().address has the port that was chosen.
//
// `accept` gets the connections that other endpoints open, once certificates, token, cluster and
// protocol fit. A client leaves it out. Neither `accept` nor an event of a connection may stop the
// endpoint: another thread has to do that.
//
// Throws Unknown when the port is taken (the text names the process if possible), InvalidArgument
// and what check_credentials throws for bad options, FailedPrecondition when the endpoint would
// listen to other hosts without certificates and `insecure` is not set.
std::unique_ptr<Endpoint> make_endpoint(EndpointOptions options, Endpoint::Accept accept = {});

}  // namespace cohort::internal
