#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <string>
#include <vector>

#include "cohort/credentials.h"

namespace cohort::internal {

// TLS with certificates of both sides, or none.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials);

// A channel to "host:port" with a connection of its own. Nothing is sent before it is used.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address,
                                            const Credentials& credentials);

// Limits of what strangers can take, keep-alive, and no sharing of ports.
void configure(grpc::ServerBuilder& builder);

// The names, of kind URI, in the certificate that the other side has shown.
std::vector<std::string> peer_certificate_names(const grpc::AuthContext& context);

// What gRPC logs by itself goes to the library's log as information: strangers on a port make it
// complain, and nobody has to do anything. For the whole process.
void quiet_grpc();

}  // namespace cohort::internal
