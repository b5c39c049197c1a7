#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/message.h"

namespace cohort::internal {

// What the methods and the metadata of gRPC are called.
inline constexpr char kConnectMethod[] = "/cohort.proto.Task/Connect";
inline constexpr char kStatusMethod[] = "/cohort.proto.Health/Status";
inline constexpr char kHandshakeKey[] = "cohort-handshake-bin";
inline constexpr char kTokenKey[] = "cohort-token-bin";
// The first chunk of a caller that stays with gRPC.
inline constexpr char kReady[] = "ready";

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

// One call of gRPC that carries chunks both ways, on the side of the caller or of the server.
// Operations end with their tag at the queue of the call; one operation of each kind at a time.
class StreamCall {
 public:
  virtual ~StreamCall() = default;
  virtual void read(grpc::ByteBuffer* chunk, void* tag) = 0;
  virtual void write(const grpc::ByteBuffer& chunk, void* tag) = 0;
  // The other side reads to the end. No write may follow. On the caller's side only.
  virtual void end_writes(void* tag) = 0;
  // No read or write may follow. The caller's side ends when the server has finished, too.
  virtual void finish(void* tag) = 0;
  // Whether finish() itself ends the call, without waiting for the other side.
  virtual bool finishes_alone() const = 0;
  // Ends the running operations.
  virtual void cancel() = 0;
  // How the call ended; known after finish().
  virtual grpc::Status outcome() const { return {}; }
};

class ClientCall : public StreamCall {
 public:
  explicit ClientCall(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  grpc::ClientContext& context() { return context_; }
  void start(grpc::CompletionQueue* queue, const std::string& method, void* tag) {
    stream_ = grpc::GenericStub(channel_).PrepareCall(&context_, method, queue);
    stream_->StartCall(tag);
  }
  void read_answer(void* tag) { stream_->ReadInitialMetadata(tag); }

  void read(grpc::ByteBuffer* chunk, void* tag) override { stream_->Read(chunk, tag); }
  void write(const grpc::ByteBuffer& chunk, void* tag) override { stream_->Write(chunk, tag); }
  void end_writes(void* tag) override { stream_->WritesDone(tag); }
  void finish(void* tag) override { stream_->Finish(&outcome_, tag); }
  bool finishes_alone() const override { return false; }
  void cancel() override { context_.TryCancel(); }
  grpc::Status outcome() const override { return outcome_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status outcome_;
};

class ServerCall : public StreamCall {
 public:
  grpc::GenericServerContext& context() { return context_; }
  grpc::GenericServerAsyncReaderWriter& stream() { return stream_; }
  void refuse(const grpc::Status& why, void* tag) { stream_.Finish(why, tag); }

  void read(grpc::ByteBuffer* chunk, void* tag) override { stream_.Read(chunk, tag); }
  void write(const grpc::ByteBuffer& chunk, void* tag) override { stream_.Write(chunk, tag); }
  void end_writes(void*) override {}
  void finish(void* tag) override { stream_.Finish(grpc::Status::OK, tag); }
  bool finishes_alone() const override { return true; }
  void cancel() override { context_.TryCancel(); }

 private:
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
};

}  // namespace cohort::internal
