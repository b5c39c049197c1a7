#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// gRPC with nothing of ours: what connections by gRPC are compared with.
namespace cohort::bench {

// What a stream sends before it gets an answer, and how it is cut.
inline constexpr size_t kStreamBytes = size_t{64} << 20;
inline constexpr size_t kStreamPiece = size_t{1} << 20;

// Answers unary calls, and streams once for every kStreamBytes.
class BareGrpcService : public grpc::CallbackGenericService {
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(bool stream) : enough_(stream ? kStreamBytes : 1) { StartRead(&buffer_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      read_ += buffer_.Length();
      if (read_ < enough_) return StartRead(&buffer_);
      read_ = 0;
      const grpc::Slice answer("answer");
      reply_ = grpc::ByteBuffer(&answer, 1);
      if (enough_ == 1) return StartWriteAndFinish(&reply_, {}, grpc::Status::OK);
      StartWrite(&reply_);
      StartRead(&buffer_);
    }
    void OnDone() override { delete this; }

   private:
    const size_t enough_;
    size_t read_ = 0;
    grpc::ByteBuffer buffer_;
    grpc::ByteBuffer reply_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Reactor(context->method() == "/bare/Stream");
  }
};

// A server at `address`; `port` gets the one that the system chose where it says 0.
class BareGrpcServer {
 public:
  explicit BareGrpcServer(const std::string& address, int* port = nullptr) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), port);
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
  }
  void wait() { server_->Wait(); }

 private:
  BareGrpcService service_;
  std::unique_ptr<grpc::Server> server_;
};

// A client, on one thread.
class BareGrpcClient {
 public:
  explicit BareGrpcClient(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        stream_(stub_.PrepareCall(&context_, "/bare/Stream", &queue_)) {
    context_.set_wait_for_ready(true);
    stream_->StartCall(this);
    wait();
    for (size_t at = 0; at < kStreamBytes; at += kStreamPiece) {
      const grpc::Slice slice(memory_.data() + at, kStreamPiece, grpc::Slice::STATIC_SLICE);
      pieces_.emplace_back(&slice, 1);
    }
  }

  // kStreamBytes one way, and a short answer.
  void send_large() {
    for (const grpc::ByteBuffer& piece : pieces_) {
      stream_->Write(piece, this);
      wait();
    }
    grpc::ByteBuffer reply;
    stream_->Read(&reply, this);
    wait();
  }
  void round_trip() {
    grpc::ClientContext context;
    const grpc::Slice slice("question");
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call =
        stub_.PrepareUnaryCall(&context, "/bare/Unary", grpc::ByteBuffer(&slice, 1), &queue_);
    call->StartCall();
    call->Finish(&reply, &status, this);
    wait();
    if (!status.ok()) throw std::runtime_error("the bare call failed: " + status.error_message());
  }

 private:
  void wait() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok) || !ok) throw std::runtime_error("the bare stream broke");
  }

  std::vector<char> memory_ = std::vector<char>(kStreamBytes, 1);
  std::vector<grpc::ByteBuffer> pieces_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

}  // namespace cohort::bench
