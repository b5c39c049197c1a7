#include "collectives/peers.h"

namespace cohort::bench {

AllReduce gloo_all_reduce(const std::string&, int, int) { return {}; }

}  // namespace cohort::bench
