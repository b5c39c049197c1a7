#include <cstdlib>

#include "zeromq/zeromq.h"

namespace cohort::bench {

struct ZeroMq::State {};
ZeroMq::ZeroMq(const std::string&, size_t) {}
ZeroMq::~ZeroMq() = default;
void ZeroMq::push_and_pull() {}
bool ZeroMq::is_there() { return false; }
void serve_zeromq(const std::string&) { std::exit(1); }

}  // namespace cohort::bench
