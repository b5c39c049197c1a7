#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace cohort::bench {

// What parameter servers on ZeroMQ are made of: a request with the bytes to add, over TCP, and a
// reply with the sum. The server is another process: this program with the words "zeromq-server"
// and an address.
//
// Microseconds of one exchange: the median of `count`. 0 when the benchmark was built without
// ZeroMQ.
double zeromq_push_pull_us(const std::string& program, size_t bytes, int count);
int serve_zeromq(const std::string& address);

}  // namespace cohort::bench
