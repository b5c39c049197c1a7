#include "zeromq_loop.h"

namespace cohort::bench {

double zeromq_push_pull_us(const std::string&, size_t, int) { return 0; }
int serve_zeromq(const std::string&) { return 1; }

}  // namespace cohort::bench
