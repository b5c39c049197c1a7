#include "zeromq_loop.h"

#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "support/free_ports.h"
#include "support/process.h"

namespace cohort::bench {

double zeromq_push_pull_us(const std::string& program, size_t bytes, int count) {
  const std::string address = "tcp://127.0.0.1" + test::free_addresses(1)[0].substr(9);
  const test::Process server({program, "zeromq-server", address});
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_REQ);
  zmq_connect(socket, address.c_str());
  std::vector<float> gradient(bytes / 4, 1.f);
  std::vector<float> value(bytes / 4);
  std::vector<double> times;
  for (int i = 0; i < count + 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    zmq_send(socket, gradient.data(), bytes, 0);
    zmq_recv(socket, value.data(), bytes, 0);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  zmq_close(socket);
  zmq_ctx_destroy(context);
  times.erase(times.begin(), times.begin() + 3);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

int serve_zeromq(const std::string& address) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_REP);
  if (zmq_bind(socket, address.c_str()) != 0) return 1;
  std::vector<float> sum;
  while (true) {
    zmq_msg_t request;
    zmq_msg_init(&request);
    if (zmq_msg_recv(&request, socket, 0) < 0) return 1;
    const size_t bytes = zmq_msg_size(&request);
    sum.resize(bytes / 4);
    const auto* added = static_cast<const float*>(zmq_msg_data(&request));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
    zmq_msg_close(&request);
    zmq_send(socket, sum.data(), bytes, 0);
  }
}

}  // namespace cohort::bench
