#include "data/stage.h"

#include <algorithm>

#include "base/machine.h"

namespace cohort::data::internal {

void check_at_least(std::string_view stage, std::string_view what, int64_t value, int64_t least) {
  if (value >= least) return;
  raise(Code::InvalidArgument, "[{}] the {} must be at least {}, got {}", stage, what, least,
        value);
}

void check_autotuned(std::string_view stage, std::string_view what, IntOrAutotune value,
                     int least) {
  if (value.number().value_or(least) >= least) return;
  raise(Code::InvalidArgument,
        "[{}] the {} must be at least {}, got {}; use kAutotune to let the library choose it",
        stage, what, least, *value.number());
}

void check_threads(std::string_view stage, IntOrAutotune parallel) {
  check_autotuned(stage, "number of threads", parallel, 1);
}

Cardinality number_of_batches(Cardinality all, int64_t size, bool drop_remainder) {
  if (!all.is_number()) return all;
  return all.count() / size + (!drop_remainder && all.count() % size != 0 ? 1 : 0);
}

std::optional<ElementSpec> batched(const std::optional<ElementSpec>& spec, int64_t size) {
  if (!spec) return std::nullopt;
  std::vector<TensorSpec> tensors = spec->tensors();
  for (TensorSpec& tensor : tensors) {
    if (!tensor.shape.has_rank()) continue;
    if (tensor.shape.rank() == Shape::kMaxRank) return std::nullopt;
    tensor.shape = tensor.shape.with_inserted(0, size);
  }
  return ElementSpec(*spec, std::move(tensors));
}

std::optional<ElementSpec> unbatched(const std::optional<ElementSpec>& spec) {
  if (!spec) return std::nullopt;
  std::vector<TensorSpec> tensors = spec->tensors();
  for (TensorSpec& tensor : tensors) {
    if (!tensor.shape.has_rank()) continue;
    if (tensor.shape.rank() == 0) return std::nullopt;
    tensor.shape = tensor.shape.without(0);
  }
  return ElementSpec(*spec, std::move(tensors));
}

namespace {

Shape common_shape(const Shape& a, const Shape& b) {
  if (!a.has_rank() || a.rank() != b.rank()) return Shape::unknown();
  Shape both = a;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis]) both = both.with(axis, Shape::kUnknownDim);
  }
  return both;
}

}  // namespace

std::optional<ElementSpec> common(const std::optional<ElementSpec>& a,
                                  const std::optional<ElementSpec>& b) {
  if (!a || !b || !(*structure_of(*a) == *structure_of(*b))) return std::nullopt;
  std::vector<TensorSpec> tensors = a->tensors();
  const std::vector<TensorSpec> others = b->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dtype != others[i].dtype) return std::nullopt;
    tensors[i].shape = common_shape(tensors[i].shape, others[i].shape);
  }
  return ElementSpec(*a, std::move(tensors));
}

int thread_count(IntOrAutotune parallel, const Context& context) {
  if (parallel.number()) return *parallel.number();
  const auto cores = static_cast<int>(cohort::internal::core_count());
  return std::max(1, context.options.threads.value_or(cores));
}

}  // namespace cohort::data::internal
