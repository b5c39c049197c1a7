#include "rpc/stream_call.h"

namespace cohort::internal {
namespace {

// Below this size copying costs less than a slice with its references and its place in system
// calls.
constexpr size_t kCopiedBytes = 8192;

// `owner` keeps the bytes alive. gRPC only reads the bytes.
template <typename Owner>
grpc::Slice slice_of(const void* bytes, size_t size, Owner owner) {
  auto* const kept = new Owner(std::move(owner));
  return {const_cast<void*>(bytes), size, [](void* held) { delete static_cast<Owner*>(held); },
          kept};
}

// Collects pieces into slices.
class Slices {
 public:
  void add(const Buffer& piece) {
    if (piece.bytes.size() <= kCopiedBytes) {
      joined_.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    } else {
      flush();
      slices_.push_back(slice_of(piece.bytes.data(), piece.bytes.size(), piece.owner));
    }
  }
  std::vector<grpc::Slice> take() {
    flush();
    return std::move(slices_);
  }

 private:
  void flush() {
    if (joined_.empty()) return;
    const auto joined = std::make_shared<const std::string>(std::exchange(joined_, {}));
    slices_.push_back(slice_of(joined->data(), joined->size(), joined));
  }

  std::string joined_;
  std::vector<grpc::Slice> slices_;
};

}  // namespace

grpc::ByteBuffer to_byte_buffer(std::span<const Buffer> pieces) {
  Slices collected;
  for (const Buffer& piece : pieces) collected.add(piece);
  const std::vector<grpc::Slice> slices = collected.take();
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer to_byte_buffer(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

ReceivedBytes::ReceivedBytes(grpc::ByteBuffer& buffer) {
  if (buffer.Valid()) (void)buffer.Dump(&slices_);
  buffer.Clear();
  for (const grpc::Slice& slice : slices_) {
    pieces_.push_back({reinterpret_cast<const std::byte*>(slice.begin()), slice.size()});
  }
}

std::string ReceivedBytes::to_string() const {
  std::string all;
  for (const grpc::Slice& slice : slices_) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

}  // namespace cohort::internal
