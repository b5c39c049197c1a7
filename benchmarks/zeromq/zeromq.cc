#include "zeromq/zeromq.h"

#include <zmq.h>

#include <cstdlib>
#include <vector>

#include "support/free_ports.h"
#include "support/process.h"

namespace cohort::bench {

struct ZeroMq::State {
  State(const std::string& program, const std::string& address, size_t bytes)
      : server({program, "zeromq-server", address}), gradient(bytes / 4, 1.f), value(bytes / 4) {
    zmq_connect(socket, address.c_str());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    zmq_close(socket);
    zmq_ctx_destroy(context);
  }

  test::Process server;
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_REQ);
  std::vector<float> gradient;
  std::vector<float> value;
};

ZeroMq::ZeroMq(const std::string& program, size_t bytes)
    : state_(std::make_unique<State>(
          program, "tcp://127.0.0.1" + test::free_addresses(1)[0].substr(sizeof "localhost" - 1),
          bytes)) {}
ZeroMq::~ZeroMq() = default;

void ZeroMq::push_and_pull() {
  const size_t bytes = state_->gradient.size() * sizeof(float);
  zmq_send(state_->socket, state_->gradient.data(), bytes, 0);
  zmq_recv(state_->socket, state_->value.data(), bytes, 0);
}

bool ZeroMq::is_there() { return true; }

void serve_zeromq(const std::string& address) {
  void* socket = zmq_socket(zmq_ctx_new(), ZMQ_REP);
  if (zmq_bind(socket, address.c_str()) != 0) std::exit(1);
  std::vector<float> sum;
  for (;;) {
    zmq_msg_t request;
    zmq_msg_init(&request);
    if (zmq_msg_recv(&request, socket, 0) < 0) std::exit(1);
    const size_t bytes = zmq_msg_size(&request);
    sum.resize(bytes / sizeof(float));
    const auto* added = static_cast<const float*>(zmq_msg_data(&request));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
    zmq_msg_close(&request);
    zmq_send(socket, sum.data(), bytes, 0);
  }
}

}  // namespace cohort::bench
