#pragma once

#include <cohort/cohort.h>
#include <cohort/collective.h>

#include <functional>
#include <istream>
#include <ostream>

#include "ratio.h"

namespace cohort::bench {

// Worker 0 reads numbers of steps, all workers do as many, and worker 0 writes the seconds that
// those took. Returns at the end of the numbers.
inline void train_as_told(Communicator workers, std::istream& orders, std::ostream& times,
                          const std::function<void()>& step) {
  for (;;) {
    int64_t steps = 0;
    if (workers.rank() == 0 && !(orders >> steps)) steps = 0;
    steps = workers.broadcast(Tensor(steps)).to<int64_t>();
    if (steps == 0) return;
    const double seconds = seconds_of([&] {
      for (int64_t i = 0; i < steps; ++i) step();
    });
    if (workers.rank() == 0) times << seconds << std::endl;
  }
}

}  // namespace cohort::bench
