#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/message.h"

namespace cohort::internal {

// Small pieces are copied and joined; large pieces stay where they are and are kept alive until
// gRPC has sent them.
grpc::ByteBuffer to_byte_buffer(std::span<const Buffer> pieces);
grpc::ByteBuffer to_byte_buffer(std::string_view bytes);

// The bytes of a received buffer, without a copy.
class ReceivedBytes {
 public:
  // Takes `buffer` and leaves it empty.
  explicit ReceivedBytes(grpc::ByteBuffer& buffer);
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  std::string to_string() const;

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace cohort::internal
