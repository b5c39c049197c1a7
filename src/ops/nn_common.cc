#include "ops/nn_common.h"

#include "base/raise.h"

namespace cohort::internal {

Shape require_same_shape(const OpInputs& inputs, size_t i, size_t j) {
  const Shape& a = inputs.shape(i);
  const Shape& b = inputs.shape(j);
  if (a.is_compatible_with(b)) return a.merged_with(b);
  raise(Code::InvalidArgument, "[{}] inputs {} and {} must have one shape, got {} and {}",
        inputs.op, i, j, a.to_string(), b.to_string());
}

void require_channel_vector(const OpInputs& inputs, size_t i, int64_t channels,
                            std::string_view what) {
  if (inputs.shape(i).is_compatible_with(Shape{channels})) return;
  raise(Code::InvalidArgument, "[{}] {} must have shape {}, one element per channel, got {}",
        inputs.op, what, Shape{channels}.to_string(), inputs.shape(i).to_string());
}

void require_count(std::string_view op, int64_t expected, int64_t found) {
  if (expected == found) return;
  raise(Code::InvalidArgument, "[{}] expected {} elements, got {}", op, expected, found);
}

}  // namespace cohort::internal
