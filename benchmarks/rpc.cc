// Connections by gRPC beside gRPC itself: the same bytes over a bare stream of byte buffers, and
// its own unary round trip. The other side is a second process.

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "ratio.h"
#include "rpc/endpoint.h"

namespace {

using namespace cohort::internal;  // NOLINT: a program

constexpr size_t kLarge = size_t{64} << 20;
constexpr size_t kPiece = size_t{1} << 20;

// --- The other process: answers small messages with themselves, and large ones with a small one.

class BareService : public grpc::CallbackGenericService {
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(bool stream) : enough_(stream ? kLarge : 1) { StartRead(&buffer_); }
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

void answer(Connection& back, const Message& message) {
  back.send({message.payloads.empty() ? message.header : "answer"});
}

[[noreturn]] void serve(int out) {
  std::shared_ptr<Connection> kept;
  const auto endpoint = make_endpoint(
      {.self = {.name = "/job:ps/replica:0/task:0", .address = "127.0.0.1:0"}, .way = Way::Grpc},
      [&](std::shared_ptr<Connection> connection) {
        Connection& back = *connection;
        connection->start({[&back](const Message& message) { answer(back, message); },
                           [](const cohort::Status&) {}});
        kept = std::move(connection);
      });
  BareService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  builder.SetMaxReceiveMessageSize(-1);
  const auto server = builder.BuildAndStart();
  dprintf(out, "%s 127.0.0.1:%d\n", endpoint->self().address.c_str(), port);
  for (;;) pause();
}

// --- This process.

// gRPC without anything of ours, on one thread.
class Bare {
 public:
  explicit Bare(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        stream_(stub_.PrepareCall(&context_, "/bare/Stream", &queue_)) {
    stream_->StartCall(this);
    wait();
  }

  void send_large(const std::vector<grpc::ByteBuffer>& pieces) {
    for (const grpc::ByteBuffer& piece : pieces) {
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

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// Our connection, with somebody who waits for answers.
class Ours {
 public:
  explicit Ours(const std::string& address)
      : endpoint_(make_endpoint({.self = {.name = "client"}, .way = Way::Grpc})),
        connection_(endpoint_->connect(address, soon())) {
    connection_->start({[this](const Message&) { ++answers_; }, [](const cohort::Status&) {}});
  }
  void ask(Message message) {
    const int before = answers_;
    connection_->send(std::move(message));
    if (!connection_->deliver_until([&] { return answers_ > before; }, soon())) {
      throw std::runtime_error("no answer");
    }
  }

 private:
  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

  int answers_ = 0;
  std::unique_ptr<Party> endpoint_;
  std::shared_ptr<Connection> connection_;
};

void compare(const std::string& our_address, const std::string& bare_address) {
  Ours ours(our_address);
  Bare bare(bare_address);
  cohort::bench::run({.name = "round trip of a small message",
                      .ours = [&] { ours.ask({"question"}); },
                      .theirs = [&] { bare.round_trip(); },
                      .calls = 200,
                      .rounds = 21,
                      .limit = 1.1});
  const auto memory = std::make_shared<std::vector<std::byte>>(kLarge, std::byte{1});
  const Buffer large{.bytes = *memory, .owner = memory};
  std::vector<grpc::ByteBuffer> pieces;
  for (size_t at = 0; at < kLarge; at += kPiece) {
    const grpc::Slice slice(memory->data() + at, kPiece, grpc::Slice::STATIC_SLICE);
    pieces.emplace_back(&slice, 1);
  }
  const double ratio = cohort::bench::run({.name = "64 MB, one way",
                                           .ours =
                                               [&] {
                                                 ours.ask({"large", {large}});
                                               },
                                           .theirs = [&] { bare.send_large(pieces); },
                                           .rounds = 21,
                                           .limit = 1 / 0.8});
  std::printf("  bandwidth of a bare stream that is reached: %.2f\n", 1 / ratio);
}

}  // namespace

int main() {
  int said[2];
  if (pipe(said) != 0) return 1;
  // Before gRPC or any thread is there.
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(said[1]);
  }
  char our_address[100];
  char bare_address[100];
  FILE* const text = fdopen(said[0], "r");
  if (std::fscanf(text, "%99s %99s", our_address, bare_address) != 2) return 1;
  compare(our_address, bare_address);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}
