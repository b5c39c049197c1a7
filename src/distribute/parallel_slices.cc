#include "distribute/parallel_slices.h"

#include <algorithm>
#include <latch>

#include "runtime/worker_pool.h"

namespace cohort::internal {
namespace {

constexpr int64_t kLineOfBytes = 64;  // elements, so that even single bytes fill a line

}  // namespace

ElementRange slice_of(int64_t count, size_t part, size_t parts) {
  const auto border = [&](size_t number) {
    if (number == parts) return count;
    const int64_t even = count / static_cast<int64_t>(parts) * static_cast<int64_t>(number);
    return even / kLineOfBytes * kLineOfBytes;
  };
  return {border(part), border(part + 1)};
}

void for_each_slice(int64_t count, size_t parts, const std::function<void(ElementRange)>& body) {
  std::latch done(static_cast<std::ptrdiff_t>(parts) - 1);
  for (size_t part = 1; part < parts; ++part) {
    run_pool().submit([&, part] {
      body(slice_of(count, part, parts));
      done.count_down();
    });
  }
  body(slice_of(count, 0, parts));
  done.wait();
}

}  // namespace cohort::internal
