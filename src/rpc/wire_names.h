#pragma once

namespace cohort::internal {

// What the methods and the metadata of gRPC are called.
inline constexpr char kConnectMethod[] = "/cohort.proto.Task/Connect";
inline constexpr char kStatusMethod[] = "/cohort.proto.Health/Status";
inline constexpr char kHandshakeKey[] = "cohort-handshake-bin";
inline constexpr char kTokenKey[] = "cohort-token-bin";
// The first chunk of a caller that stays with gRPC.
inline constexpr char kReady[] = "ready";

}  // namespace cohort::internal
