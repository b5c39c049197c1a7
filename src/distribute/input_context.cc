#include <fmt/format.h>

#include <ostream>

#include "base/raise.h"
#include "cohort/distributed_dataset.h"

namespace cohort {

int64_t InputContext::get_per_replica_batch_size(int64_t global_batch_size) const {
  if (replicas_ < 1 || global_batch_size < 0 || global_batch_size % replicas_ != 0) {
    internal::raise(Code::InvalidArgument,
                    "[InputContext] a global batch of {} cannot be divided evenly among {} "
                    "replicas; choose a multiple of {}",
                    global_batch_size, replicas_, replicas_);
  }
  return global_batch_size / replicas_;
}

std::string InputContext::to_string() const {
  return fmt::format("InputContext(input pipeline id {}, total: {}, replicas in sync: {})", id_,
                     pipelines_, replicas_);
}

std::ostream& operator<<(std::ostream& out, const InputContext& context) {
  return out << context.to_string();
}

}  // namespace cohort
